"""Requests to run: seeded, timed, and as an ablation over the phases."""
