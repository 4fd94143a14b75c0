"""Argument checks of the public API, atomic file writes, and hooks for higher layers."""
