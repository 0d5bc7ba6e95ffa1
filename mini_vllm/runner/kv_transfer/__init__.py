"""Where K and V can lie besides the KV cache."""
