"""Draws random questions to single functions."""
