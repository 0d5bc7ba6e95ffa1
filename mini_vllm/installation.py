"""Commands that install optional packages, with the same wording in every error, notice and check."""

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

PROJECT = "mini-vllm-labs"
FOLDER = Path(__file__).resolve().parents[1]
# A folder created by `mini-vllm start` keeps it in `.setup/`, where a new release replaces it.
PLACES = (FOLDER / ".setup" / "constraints.txt", FOLDER / "constraints.txt")
CONSTRAINTS = next(filter(Path.is_file, PLACES), PLACES[-1])
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def install_command(extra: str = "") -> str:
    """Return the command that installs one of the course's extras, or by default only the required packages.

    If pip has installed the course, the command names the package, because `pip install -e .` would replace a wheel.
    """
    wanted = f"[{extra}]" if extra else ""
    return pip_install(*([PROJECT + wanted] if provides(extra) else ["-e", place(FOLDER) + wanted]))


def pip_install(*requirements: str) -> str:
    """Return the command that installs packages into the running Python, in the versions the course was tested with.

    The command uses double quotes, because every shell understands them, including those on Windows.
    """
    pins = ["-c", place(CONSTRAINTS)] if CONSTRAINTS.is_file() else []
    index = ["--extra-index-url", CPU_INDEX] if would_bring_cuda() else []
    words = [*pip(), "install", *pins, *index, *requirements]
    return " ".join(f'"{word}"' if re.search(r"[\[ <>;]", word) else word for word in words)


def provides(extra: str) -> bool:
    """Return whether pip has installed the course with this extra. An `*.egg-info` that a build left here does not
    count."""
    return any(
        extra in ("", *(found.metadata.get_all("Provides-Extra") or ()))
        for found in metadata.distributions(name=PROJECT)
        if Path(str(found.locate_file(""))).resolve() != FOLDER
    )


def place(path: Path) -> str:
    """Return a path in the course, relative if the current folder is `FOLDER`."""
    return path.relative_to(FOLDER).as_posix() if Path.cwd() == FOLDER else str(path)


def pip() -> list[str]:
    """Return `pip` if it belongs to the running Python, otherwise `python -m pip` with that Python's path."""
    found = shutil.which("pip")
    ours = found is not None and Path(found).parent.resolve() == Path(sys.executable).parent.resolve()
    return ["pip"] if ours else [sys.executable, "-m", "pip"]


def would_bring_cuda() -> bool:
    """Return whether pip would download gigabytes of CUDA libraries along with PyTorch on a Linux machine without an
    NVIDIA driver."""
    if sys.platform != "linux" or shutil.which("nvidia-smi") or not CONSTRAINTS.is_file():
        return False
    try:
        pin = f"torch=={metadata.version('torch').partition('+')[0]}"
    except metadata.PackageNotFoundError:
        return True
    return pin not in CONSTRAINTS.read_text(encoding="utf-8").splitlines()
