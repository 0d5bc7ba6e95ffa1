"""Wrong and fair implementations of every phase, and the commands that run the graded tests on them."""
