"""Scripts read: from Python's syntax trees to functions and modules."""
