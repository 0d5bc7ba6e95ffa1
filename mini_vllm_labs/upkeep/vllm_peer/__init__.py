"""vLLM 0.13.0's scheduler as a peer of `mini-vllm bench scheduler`, in its own virtual environment."""
