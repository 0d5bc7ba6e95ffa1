"""Runs the graded tests of a whole phase in an engine. This file contains no task."""
