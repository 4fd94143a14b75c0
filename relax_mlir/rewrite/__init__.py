"""Passes, patterns and their driver, outlining, and use-def helpers."""
