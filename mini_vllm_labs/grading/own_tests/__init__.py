"""Grades a learner's own test file: it must catch known mistakes of a phase, and accept right implementations."""
