"""Replays recorded decisions of vLLM to check that our scheduler makes the same ones."""
