"""Builds a running engine from a lineup, which names whose code runs in each phase."""
