"""The reference solutions: one module per phase, with the same public names as the starters."""
