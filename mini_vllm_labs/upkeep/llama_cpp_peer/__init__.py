"""llama.cpp as a benchmark peer, in its own virtual environment."""
