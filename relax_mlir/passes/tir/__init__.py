"""Passes of the tir level."""
