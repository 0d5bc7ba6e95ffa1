"""The reference solutions: one module per phase, the same public names as the starters."""
