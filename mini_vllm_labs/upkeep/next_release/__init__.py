"""Records the public scenarios again with a vLLM release, and compares them with both recordings."""
