"""Autotuning: search for faster kernel configurations, and the tuning database."""
