"""Load-tests HTTP servers: an open-loop client, its figures, and the servers to compare."""
