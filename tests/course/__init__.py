"""Tests of the course material: starters, environment, `lab.py` commands, and documents for newcomers."""
