"""Simulates serving on hardware that is not available, with a cost model on a virtual clock and without torch."""
