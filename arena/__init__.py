"""Policies against each other: workloads, figures, and whom each of them costs what."""
