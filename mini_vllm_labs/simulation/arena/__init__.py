"""Compares policies: on which workloads, by which figures, and at whose cost."""
