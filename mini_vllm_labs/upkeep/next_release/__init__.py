"""Records the public scenarios again from a release of vLLM and compares them with both recordings."""
