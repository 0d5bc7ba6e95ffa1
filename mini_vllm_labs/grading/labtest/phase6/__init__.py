"""Batches, checks and slow references for the graded tests of phase 6."""
