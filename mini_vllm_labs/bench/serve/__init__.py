"""Puts an HTTP load on servers: an open-loop client, its figures, and the servers to compare."""
