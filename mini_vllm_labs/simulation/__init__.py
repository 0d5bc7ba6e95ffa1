"""Simulates serving on hardware that is not available: a cost model on a virtual clock, without torch."""
