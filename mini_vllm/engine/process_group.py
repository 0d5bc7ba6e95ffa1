"""Ends a process together with everything that it has started; each engine's process leads a process group."""

import os
import signal
import sys
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import NoReturn


def end_group() -> NoReturn:
    """End this process and all its children immediately."""
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def kill_group(process: BaseProcess) -> None:
    """Kill a process that leads a group, and its children, which may outlive it."""
    # on Windows, before the process leads a group, or if the group has no processes left
    with suppress(AttributeError, OSError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.kill()
