"""Code that the graded tests of `labs/` share."""
