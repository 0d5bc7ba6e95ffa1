"""Asks an engine in any language for vLLM's recorded scheduling decisions. Standard library only."""
