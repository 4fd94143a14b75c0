"""Passes of the relax level."""
