"""Whole models for tests and benchmarks: one file each, and `zoo` lists them all."""
