"""Passes of the schedule level."""
