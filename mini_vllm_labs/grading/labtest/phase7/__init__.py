"""Checks and random cases for the graded tests of phase 7."""
