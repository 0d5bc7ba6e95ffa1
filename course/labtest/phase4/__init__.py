"""Doubles, a random workload and a reference cache for the graded tests of phase 4."""
