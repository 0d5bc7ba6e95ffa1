"""Builds `.venv-llama-cpp` from sources; needs cmake and a C++ compiler.

Run it as `python -m mini_vllm_labs.upkeep.llama_cpp_peer`.
"""

from pathlib import Path

from mini_vllm_labs.bench.peer_process import LLAMA_CPP_PYTHON
from mini_vllm_labs.upkeep.peer_environment import run_pip

if __name__ == "__main__":
    run_pip(LLAMA_CPP_PYTHON, "install", "-r", str(Path(__file__).with_name("requirements.txt")))
    run_pip(LLAMA_CPP_PYTHON, "check")
