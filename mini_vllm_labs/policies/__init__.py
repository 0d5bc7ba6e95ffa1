"""Scheduling policies from research and from proposals to vLLM, each a class of 20 to 60 lines."""
