"""Compares policies: which workloads and figures they improve, and at whose cost."""
