"""Proof that the lineup's scheduler works inside vLLM 0.13.0: vLLM's own tests, its engine, and what a step costs."""
