"""Layers around the phases for rules that vLLM changed after 0.13.0. `release_rules.py` lists the changed rules by
release."""
