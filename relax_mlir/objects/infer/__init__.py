"""Struct-info inference for Relax expressions."""
