"""Compares policies: on which workloads, in which figures, and at whose cost."""
