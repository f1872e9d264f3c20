"""Measurements, each file named by its claim; run as ``python -m benchmarks.NAME``."""
