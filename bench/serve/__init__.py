"""Load on a server over HTTP: an open-loop client, its figures, the servers it is compared with, and faults."""
