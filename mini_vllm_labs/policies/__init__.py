"""Scheduling policies of research and of vLLM's proposals, each a class of 20 to 60 lines."""
