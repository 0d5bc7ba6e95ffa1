"""Installs a vLLM release in a separate environment. Nothing is compiled, and no model can run there."""

import os
import re
import sysconfig
import tarfile
from pathlib import Path

from mini_vllm.release_rules import RELEASES
from mini_vllm_labs.bench.peer_process import vllm_python
from mini_vllm_labs.upkeep.peer_environment import run_pip


def install(version: str) -> None:
    """Install vLLM `version` in `.venv-vllm` (0.13.0) or `.venv-vllm-VERSION`, with its sources.

    vLLM's scheduler is pure Python. Torch, which vLLM imports, comes from this environment. The sources are kept,
    because they contain vLLM's own tests. Exits with pip's code if pip fails. Raises `ValueError` unless `version` is
    of the form 0.33.0.
    """
    if re.fullmatch(r"\d+(\.\d+)+", version) is None:
        raise ValueError(f"a vLLM release must look like {RELEASES[-1]}, got {version!r}")
    python = vllm_python(version)
    sources = python.parents[1] / "sources"
    requirements = "requirements-0.13.0.txt" if version == RELEASES[0] else "requirements-newer.txt"
    # Install without dependencies, because vLLM's include gigabytes of GPU libraries that the scheduler never imports.
    run_pip(python, "install", "--no-deps", "-r", str(Path(__file__).with_name(requirements)))
    packages = sysconfig.get_path("purelib", vars={"base": str(python.parents[1])})
    borrowed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    Path(packages, "course.pth").write_text(borrowed, encoding="utf-8")
    plain = {**os.environ, "VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": version}
    unbuilt = ("--no-deps", "--no-build-isolation")
    wanted = ("--no-binary", "vllm", f"vllm=={version}", "--dest", str(sources))
    run_pip(python, "download", *unbuilt, *wanted, variables=plain)
    archive = sources / f"vllm-{version}.tar.gz"
    with tarfile.open(archive) as files:
        files.extractall(sources, [one for one in files if "/tests/" in one.name], filter="data")
    # "+cpu" makes vLLM act as its CPU edition; otherwise, it would fail to create a configuration here.
    built = {**plain, "VLLM_VERSION_OVERRIDE": f"{version}+cpu"}
    run_pip(python, "install", *unbuilt, str(archive), variables=built)
