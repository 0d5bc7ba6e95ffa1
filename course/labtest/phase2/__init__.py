"""Harnesses, doubles and a reference model for the graded tests of phase 2."""
