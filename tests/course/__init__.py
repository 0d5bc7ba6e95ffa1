"""Tests of the course material: starters, environment, the commands of `lab.py`, the documents for newcomers."""
