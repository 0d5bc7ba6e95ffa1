"""Draws random questions about single functions."""
