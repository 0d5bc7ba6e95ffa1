"""Replays recorded vLLM decisions to check that our scheduler makes the same decisions."""
