"""OpenVINO GenAI as a peer of the benchmarks, in its own virtual environment."""
