"""Decides how many threads a CPU uses for a step, and how these threads wait for each other."""
