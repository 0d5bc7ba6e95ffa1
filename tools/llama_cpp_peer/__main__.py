"""`python -m tools.llama_cpp_peer`: build `.venv-llama-cpp` from sources; it needs cmake and a C++ compiler."""

from pathlib import Path

from bench.peer_process import LLAMA_CPP_PYTHON
from tools.openvino_peer.__main__ import make_environment

if __name__ == "__main__":
    make_environment(LLAMA_CPP_PYTHON, Path(__file__).with_name("requirements.txt"))
