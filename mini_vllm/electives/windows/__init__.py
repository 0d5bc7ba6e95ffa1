"""Models with sliding windows, in which groups of layers keep different blocks from one pool."""
