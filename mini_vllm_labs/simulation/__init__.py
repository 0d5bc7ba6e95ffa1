"""Simulates serving on hardware that is not available, using a cost model on a virtual clock, without torch."""
