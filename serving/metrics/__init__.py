"""What Prometheus reads, under vLLM's names."""
