"""OpenVINO GenAI as a peer of the benchmarks, in a virtual environment of its own."""
