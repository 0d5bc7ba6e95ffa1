"""Wrong and fair implementations of every phase, and the command that runs the graded tests on them."""
