"""`python -m tools.llama_cpp_peer`: build `.venv-llama-cpp` from sources; it needs cmake and a C++ compiler."""

from pathlib import Path

from bench.peer_process import LLAMA_CPP_PYTHON
from tools.peer_environment import run_pip

if __name__ == "__main__":
    run_pip(LLAMA_CPP_PYTHON, "install", "-r", str(Path(__file__).with_name("requirements.txt")))
    run_pip(LLAMA_CPP_PYTHON, "check")
