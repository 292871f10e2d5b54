"""Tests, mirroring the package: offline, without a GPU."""
