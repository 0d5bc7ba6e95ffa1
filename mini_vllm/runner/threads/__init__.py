"""How many threads a step on a CPU computes on, and how they wait for each other."""
