"""Fuzzing of schedules: random primitives on random PrimFuncs preserve results."""
