"""YAML alone: which corpora, graphs, benchmarks, systems and presets there are. Their components stand in `assets`."""
