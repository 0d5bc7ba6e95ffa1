"""Runs a command without write access, in bubblewrap if it is installed."""

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
    """Return a prefix that denies a command write access, the network and other processes; if unavailable, return an
    empty prefix.

    Some systems install bubblewrap but forbid its system calls, so a trial run checks this once.
    """
    program = shutil.which("bwrap")
    if program is None:
        return ()
    tried = subprocess.run([program, *OPTIONS, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return () if tried.returncode else (program, *OPTIONS)


def read_only(command: Sequence[str], folder: Path) -> list[str]:
    """Wrap `command` to run read-only in `folder`; without bubblewrap, return it unchanged."""
    around = bubblewrap()
    return [*around, "--chdir", str(folder), "--", *command] if around else list(command)
