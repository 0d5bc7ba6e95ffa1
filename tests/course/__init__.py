"""Tests of the course material: starters, environment, the commands of `lab.py`, the documents that strangers meet."""
