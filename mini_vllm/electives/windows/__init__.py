"""Models with sliding windows: groups of layers that keep different blocks of one pool."""
