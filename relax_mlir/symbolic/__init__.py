"""Exact symbolic sizes in pure Python: normal forms, intervals, bounds, constraints."""
