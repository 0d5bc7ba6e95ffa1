"""Replay of recorded vLLM decisions: is our scheduler the same scheduler?"""
