"""The server on Ray Serve: Ray places and restarts the replicas, on one machine or many; the rest is the same code."""
