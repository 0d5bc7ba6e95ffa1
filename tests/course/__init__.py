"""Tests of the course material: starters, solutions, environment."""
