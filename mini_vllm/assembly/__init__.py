"""Builds a running engine from a lineup, which chooses an implementation of each phase."""
