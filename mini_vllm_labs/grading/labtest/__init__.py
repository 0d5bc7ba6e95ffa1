"""What the graded tests of `labs/` share."""
