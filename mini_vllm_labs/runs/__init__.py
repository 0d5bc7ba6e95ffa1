"""What runs an engine for the course: sandbox, workloads, traces, oracle, parity."""
