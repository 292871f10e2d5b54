"""Algorithms, each usable and tested alone: arrays and dataclasses in and out.

A module here imports nothing else of this package, reads and writes no files and knows neither Dagster nor the lake.
"""
