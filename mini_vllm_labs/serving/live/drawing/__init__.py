"""Draws pictures in a separate process, so that drawing uses neither the engine's time nor its lock."""
