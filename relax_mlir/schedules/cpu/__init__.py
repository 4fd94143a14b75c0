"""Schedule rules for CPUs."""
