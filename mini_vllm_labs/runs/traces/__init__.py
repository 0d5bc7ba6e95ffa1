"""Recorded steps: reading, replaying and describing them."""
