"""Command-line tools; only they print and read the environment."""
