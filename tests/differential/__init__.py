"""Differential fuzzing of Relax: random modules against the operators' definitions."""
