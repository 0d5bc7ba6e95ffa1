"""Draws pictures in a separate process, so that drawing neither takes the engine's time nor holds its GIL."""
