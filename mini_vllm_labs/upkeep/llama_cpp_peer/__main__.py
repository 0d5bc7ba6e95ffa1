"""Builds `.venv-llama-cpp` from source, which needs cmake and a C++ compiler.

Run it as `python -m mini_vllm_labs.upkeep.llama_cpp_peer`. With `--wheel`, it instead builds `.venv-xllamacpp` from
wheels, whose llama.cpp contains only the server.
"""

import sys
from pathlib import Path

from mini_vllm_labs.bench.peer_process import LLAMA_CPP_PYTHON, XLLAMACPP_PYTHON
from mini_vllm_labs.upkeep.peer_environment import run_pip

if __name__ == "__main__":
    is_wheel = sys.argv[1:] == ["--wheel"]
    python = XLLAMACPP_PYTHON if is_wheel else LLAMA_CPP_PYTHON
    requirements = Path(__file__).with_name("wheel.txt" if is_wheel else "requirements.txt")
    run_pip(python, "install", "-r", str(requirements))
    run_pip(python, "check")
