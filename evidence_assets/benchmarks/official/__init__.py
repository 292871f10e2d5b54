"""Readers of official formats, one file a benchmark, found by the registry: whose name stands in a file's ``READERS`` is read by it.

A file may also say which passages come with its questions (``PASSAGES``). ``datasets.yaml`` states what each dataset is.
"""
