"""Fuzzing of schedules: random primitives on random tensor programs keep what they compute."""
