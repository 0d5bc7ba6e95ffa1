"""A vLLM in one file: the reference solutions, in a frame that is written for it."""
