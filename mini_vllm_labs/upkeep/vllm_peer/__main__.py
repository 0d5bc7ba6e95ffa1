"""Makes `.venv-vllm`, for `mini-vllm bench scheduler --peer vllm` and `mini_vllm_labs.upkeep.vllm_inside`.

Run it as `python -m mini_vllm_labs.upkeep.vllm_peer`.

Nothing is compiled, because vLLM's scheduler is pure Python; models cannot run there. Torch, which vLLM imports, comes
from this environment. The sources are kept in it, because they contain vLLM's own tests.
"""

import os
import sysconfig
import tarfile
from pathlib import Path

from mini_vllm_labs.bench.peer_process import VLLM_PYTHON
from mini_vllm_labs.upkeep.peer_environment import run_pip

VERSION = "0.13.0"
SOURCES = VLLM_PYTHON.parents[1] / "sources"

if __name__ == "__main__":
    # Without dependencies: vLLM's include gigabytes for GPUs and much that the scheduler never imports.
    run_pip(VLLM_PYTHON, "install", "--no-deps", "-r", str(Path(__file__).with_name("requirements.txt")))
    packages = sysconfig.get_path("purelib", vars={"base": str(VLLM_PYTHON.parents[1])})
    borrowed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    Path(packages, "course.pth").write_text(borrowed, encoding="utf-8")
    plain = {**os.environ, "VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": VERSION}
    unbuilt = ("--no-deps", "--no-build-isolation")
    wanted = ("--no-binary", "vllm", f"vllm=={VERSION}", "--dest", str(SOURCES))
    run_pip(VLLM_PYTHON, "download", *unbuilt, *wanted, variables=plain)
    archive = SOURCES / f"vllm-{VERSION}.tar.gz"
    with tarfile.open(archive) as files:
        files.extractall(SOURCES, [one for one in files if "/tests/" in one.name], filter="data")
    # "+cpu" makes vLLM treat itself as its CPU edition; otherwise it cannot create a configuration here.
    built = {**plain, "VLLM_VERSION_OVERRIDE": f"{VERSION}+cpu"}
    run_pip(VLLM_PYTHON, "install", *unbuilt, str(archive), variables=built)
