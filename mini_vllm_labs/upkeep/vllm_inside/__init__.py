"""Shows that the lineup's scheduler works inside vLLM 0.13.0, using vLLM's tests, its engine, and step times."""
