"""Builds seeded and timed requests, and runs the ablation over the phases."""
