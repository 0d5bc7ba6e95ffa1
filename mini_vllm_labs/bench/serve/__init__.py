"""HTTP load on a server: an open-loop client, its figures, and the servers to compare."""
