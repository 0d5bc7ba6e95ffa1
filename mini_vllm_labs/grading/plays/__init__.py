"""Runs the cases of the graded tests, with stand-ins for other phases.

This folder is visible to submissions in the jail.
"""
