"""Rules that vLLM changed after 0.13.0, as layers around the phases. Which release has which is `release_rules.py`."""
