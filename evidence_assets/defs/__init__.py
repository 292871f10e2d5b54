"""YAML only: declares corpora, graphs, benchmarks, systems and presets. ``assets`` has their components."""
