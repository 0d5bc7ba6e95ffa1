"""Single keys from a terminal, which is left as it was, however the program ends."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

ESCAPE = "\x1b"  # arrows and function keys begin with it
Read = Callable[[float], str]


@contextmanager
def keys() -> Iterator[Read | None]:
    """Yield a function that returns the keys pressed within some seconds; None where no key can be read.

    Ctrl-C and Ctrl-Z do what they always do. SIGTERM and a terminal that is closed end the block like Ctrl-C.
    """
    if sys.platform == "win32":
        yield _read_windows if sys.stdin.isatty() else None
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if not is_ours():
        yield None
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def take(*_: object) -> None:
        tty.setcbreak(terminal, termios.TCSADRAIN)

    try:
        signal.signal(signal.SIGCONT, take)  # a shell gives its own settings to a program that goes on
        take()
        yield _read_terminal
    finally:
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def is_ours() -> bool:
    """Return whether stdin is a terminal that this program may set: not one in whose background it runs."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _read_terminal(seconds: float) -> str:
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return ""
    pressed = os.read(sys.stdin.fileno(), 64).decode(errors="ignore")
    return "" if pressed.startswith(ESCAPE) else pressed or "q"  # nothing to read: the terminal is gone


def _read_windows(seconds: float) -> str:
    msvcrt: Any = import_module("msvcrt")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if msvcrt.kbhit():
            return str(msvcrt.getwch())
        time.sleep(0.02)
    return ""
