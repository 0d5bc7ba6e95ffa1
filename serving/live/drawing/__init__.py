"""The drawing: a process of its own, so that it takes neither the engine's time nor its lock."""
