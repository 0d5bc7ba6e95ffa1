"""Reads, replays and describes recorded steps."""
