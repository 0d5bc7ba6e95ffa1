"""Records the public scenarios again with a different vLLM release, and compares the result with both recorded
releases."""
