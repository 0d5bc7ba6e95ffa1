"""Records the public scenarios again with a release of vLLM, and compares them with both recordings."""
