"""Runs in new processes, apart from the notebook: what is imported here is paid for at each start."""
