"""What teaches: it runs, records, compares, draws and grades the engine in `mini_vllm`."""
