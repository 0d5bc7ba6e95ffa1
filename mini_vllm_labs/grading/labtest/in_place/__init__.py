"""Runs the graded tests of a whole phase in an engine. No task is in this file."""
