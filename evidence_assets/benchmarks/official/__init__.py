"""Readers of official formats, one file a benchmark, found by the registry: what a file declares in ``READERS`` is known.

A file may also say which passages come with its questions (``PASSAGES``).
"""
