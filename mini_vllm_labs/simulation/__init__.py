"""Simulated serving on hardware that is not present: a cost model on a virtual clock, without torch."""
