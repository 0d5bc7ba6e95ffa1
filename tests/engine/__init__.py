"""Tests phases 1 to 5 together on the fake model."""
