"""Whole models for tests and benchmarks, one file each; `zoo` lists them all."""
