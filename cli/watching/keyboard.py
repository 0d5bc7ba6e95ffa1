"""Single keys from a terminal, which is left as it was, however the program ends."""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ESCAPE = "\x1b"  # arrows and function keys begin with it
Read = Callable[[float], str]


@contextmanager
def keys() -> Iterator[Read | None]:
    """Yield a function that returns the keys pressed within some seconds; None where no key can be read.

    That is without a terminal, in its background, and on Windows. Ctrl-C and Ctrl-Z do what they always do; SIGTERM and
    a terminal that is closed end the block like Ctrl-C.
    """
    if sys.platform == "win32":
        yield None
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        is_ours = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        is_ours = False
    if not is_ours:
        yield None
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setcbreak(0)
        # A shell gives its own settings to a program that goes on after Ctrl-Z.
        signal.signal(signal.SIGCONT, lambda *_: tty.setcbreak(0))
        yield pressed
    finally:
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def pressed(seconds: float) -> str:
    if not select.select([0], [], [], seconds)[0]:
        return ""
    read = os.read(0, 64).decode(errors="ignore")
    return "" if read.startswith(ESCAPE) else read or "q"  # nothing to read: the terminal is gone
