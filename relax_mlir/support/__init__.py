"""Argument checks of the public API, and atomic file writes."""
