"""Policies against each other: workloads, figures, and what each of them costs which requests."""
