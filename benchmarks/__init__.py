"""Benchmarks against other runtimes (baselines)."""
