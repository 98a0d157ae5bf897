"""Timings of each room against a reference in the same run: ``python -m benchmarks``."""
