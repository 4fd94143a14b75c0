"""Compilation driver of whole models: kernel modules, launch plans, caches, tuning."""
