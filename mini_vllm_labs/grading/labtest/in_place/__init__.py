"""Runs a whole phase's graded tests in an engine. This file contains no tasks."""
