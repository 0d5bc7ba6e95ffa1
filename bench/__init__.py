"""Measurements of the engine's own cost."""
