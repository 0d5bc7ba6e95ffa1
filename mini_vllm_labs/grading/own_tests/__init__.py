"""Grades a learner's own test file: it must catch known mistakes in a phase, and accept correct implementations."""
