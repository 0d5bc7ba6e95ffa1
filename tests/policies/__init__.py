"""Tests of the seam of scheduling policies, of the policies, and of the arena."""
