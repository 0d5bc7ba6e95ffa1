"""The drawing, in a separate process so that it takes neither the engine's time nor its lock."""
