"""Creates `.venv-openvino`, where `mini-vllm bench throughput` finds the peer.

Run it as `python -m mini_vllm_labs.upkeep.openvino_peer`.
"""

from pathlib import Path

from mini_vllm_labs.bench.peer_process import OPENVINO_PYTHON
from mini_vllm_labs.upkeep.peer_environment import run_pip

UNWANTED = "torchvision"
"""optimum-intel requires it. Text does not need it, and if its build differs from torch's, nothing loads."""

if __name__ == "__main__":
    run_pip(OPENVINO_PYTHON, "install", "-r", str(Path(__file__).with_name("requirements.txt")))
    run_pip(OPENVINO_PYTHON, "uninstall", "-y", UNWANTED)
