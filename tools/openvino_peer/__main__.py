"""`python -m tools.openvino_peer`: make `.venv-openvino`, so that `mini-vllm bench throughput` finds the peer."""

import subprocess
import sys
import venv
from pathlib import Path

from bench.peer_process import OPENVINO_PYTHON

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
UNWANTED = "torchvision"
"""optimum-intel asks for it. Text needs none of it, and where its build is not that of torch, nothing loads."""


def make_environment(python: Path, requirements: Path, unwanted: str | None = None) -> None:
    """Make the environment of a peer and install its pinned packages. Exits with pip's code if it fails."""
    folder = python.parents[1]
    if not python.exists():
        print(f"making {folder}", flush=True)
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip"]
    for arguments in (["install", "-r", str(requirements)], ["uninstall", "-y", unwanted] if unwanted else ["check"]):
        if code := subprocess.run([*pip, *arguments], check=False).returncode:
            sys.exit(code)


if __name__ == "__main__":
    make_environment(OPENVINO_PYTHON, REQUIREMENTS, UNWANTED)
