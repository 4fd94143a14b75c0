"""Argument checks of the public API, atomic file writes, hooks for higher layers, and imports from a source tree."""
