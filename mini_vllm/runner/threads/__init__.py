"""Decides on how many threads a CPU computes a step, and how these threads wait for each other."""
