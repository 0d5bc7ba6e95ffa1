"""llama.cpp as a peer of the benchmarks, in its own virtual environment."""
