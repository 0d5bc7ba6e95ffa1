"""Runs engines for the course: sandbox, workloads, traces, oracle, parity."""
