"""Mutation testing of passes and analyses."""
