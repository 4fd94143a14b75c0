"""The documentation, and what writes the generated part of it."""
