"""What to type to install an optional package: the same words in every error, notice and check."""

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

PROJECT = "mini-vllm-labs"
FOLDER = Path(__file__).resolve().parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def install_command(extra: str = "") -> str:
    """Return the line that installs an extra of the course, by default what every command needs.

    Where pip knows the course it is named, so that its installation stays: `pip install -e .` would replace a wheel.
    """
    wanted = f"[{extra}]" if extra else ""
    return pip_install(*([PROJECT + wanted] if provides(extra) else ["-e", place(".") + wanted]))


def pip_install(*requirements: str) -> str:
    """Return the line that installs packages into the running Python, in the versions that the course is tested with.

    Double quotes mean the same to every shell, Windows' too.
    """
    pins = ["-c", place("constraints.txt")] if (FOLDER / "constraints.txt").is_file() else []
    index = ["--extra-index-url", CPU_INDEX] if would_bring_cuda() else []
    words = [*pip(), "install", *pins, *index, *requirements]
    return " ".join(f'"{word}"' if re.search(r"[\[ <>;]", word) else word for word in words)


def provides(extra: str) -> bool:
    """Return whether pip knows the course, with this extra. A build leaves `*.egg-info` here: that is not it."""
    return any(
        extra in ("", *(found.metadata.get_all("Provides-Extra") or ()))
        for found in metadata.distributions(name=PROJECT)
        if Path(str(found.locate_file(""))).resolve() != FOLDER
    )


def place(name: str) -> str:
    """Return the path of a file of the course, as short as it can be in the current folder."""
    return name if Path.cwd() == FOLDER else str(FOLDER / name)


def pip() -> list[str]:
    """Return `pip` if that belongs to the running Python, else a longer form that does."""
    found = shutil.which("pip")
    ours = found is not None and Path(found).parent.resolve() == Path(sys.executable).parent.resolve()
    return ["pip"] if ours else [sys.executable, "-m", "pip"]


def would_bring_cuda() -> bool:
    """Return whether pip would fetch another PyTorch, with gigabytes of CUDA, on a Linux without an NVIDIA driver."""
    if sys.platform != "linux" or shutil.which("nvidia-smi") or not (FOLDER / "constraints.txt").is_file():
        return False
    try:
        pin = f"torch=={metadata.version('torch').partition('+')[0]}"
    except metadata.PackageNotFoundError:
        return True
    return pin not in (FOLDER / "constraints.txt").read_text(encoding="utf-8").splitlines()
