"""Simulates serving on absent hardware: a cost model on a virtual clock, without torch."""
