"""`python -m tools.vllm_peer`: make `.venv-vllm`, so that `mini-vllm bench scheduler --peer vllm` finds the peer.

Nothing is compiled, and no model can run there: vLLM's scheduler is pure Python. Torch, which it imports, is that of
this environment.
"""

import os
import sysconfig
from pathlib import Path

from bench.peer_process import VLLM_PYTHON
from tools.peer_environment import run_pip

VERSION = "0.13.0"
SOURCES_ALONE = {"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": VERSION}

if __name__ == "__main__":
    # Without dependencies: vLLM's are the gigabytes of a GPU and much that the scheduler never imports.
    run_pip(VLLM_PYTHON, "install", "--no-deps", "-r", str(Path(__file__).with_name("requirements.txt")))
    packages = sysconfig.get_path("purelib", vars={"base": str(VLLM_PYTHON.parents[1])})
    borrowed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    Path(packages, "course.pth").write_text(borrowed, encoding="utf-8")
    source = ("--no-binary", "vllm", f"vllm=={VERSION}", "--no-build-isolation")
    run_pip(VLLM_PYTHON, "install", "--no-deps", *source, variables={**os.environ, **SOURCES_ALONE})
