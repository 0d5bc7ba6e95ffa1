"""Load on a server over HTTP: an open-loop client, its figures, and the servers it is compared with."""
