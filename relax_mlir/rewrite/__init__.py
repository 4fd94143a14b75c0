"""Passes, patterns and their driver, and utilities for Relax functions."""
