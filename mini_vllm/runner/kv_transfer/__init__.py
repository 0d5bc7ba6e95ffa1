"""Storage and transfer of K and V outside the KV cache."""
