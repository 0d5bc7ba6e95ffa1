"""Doubles, reference models and symptoms for the graded tests of phase 7."""
