"""Checks and reference models for the graded tests of phase 8."""
