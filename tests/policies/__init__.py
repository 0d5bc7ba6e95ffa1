"""Tests of the seam of scheduling policies, the policies themselves, and the arena."""
