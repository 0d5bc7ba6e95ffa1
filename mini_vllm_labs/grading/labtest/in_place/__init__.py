"""The graded tests of a whole phase, in an engine. Nothing here is to be filled in."""
