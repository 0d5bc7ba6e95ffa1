"""A process that can change nothing: bubblewrap, where it is installed, around a command."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

OPTIONS = (
    *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/proc", "--remount-ro", "/dev"),
    *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"),
    *("--die-with-parent", "--new-session"),
)


@cache
def bubblewrap() -> tuple[str, ...]:
    """Return the command that takes writing, network and other processes from another one; empty if there is none.

    Some systems have bubblewrap and forbid what it does, so it is tried once.
    """
    program = shutil.which("bwrap")
    if program is None:
        return ()
    tried = subprocess.run([program, *OPTIONS, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return () if tried.returncode else (program, *OPTIONS)


def read_only(command: Sequence[str], folder: Path) -> list[str]:
    """Return a command that runs `command` in `folder` and lets it change nothing; without bubblewrap as it is."""
    around = bubblewrap()
    return [*around, "--chdir", str(folder), "--", *command] if around else list(command)
