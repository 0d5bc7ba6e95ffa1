"""Tests of the scheduling-policy interface, the policies themselves, and the arena."""
