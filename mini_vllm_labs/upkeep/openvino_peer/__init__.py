"""OpenVINO GenAI as a benchmark peer, in its own virtual environment."""
