"""Structural equality and hashing of Relax and TIR objects."""
