"""Harmless functions that tests call in a `GrammarProcess`, whose child imports them from here."""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn


def process_id(number: int) -> int:
    """Return the id of the process. The result for each `number` is cached."""
    return os.getpid()


def modules() -> set[str]:
    return set(sys.modules)


def environment(name: str) -> str | None:
    return os.environ.get(name)


def takes(num_mebibytes: int) -> int:
    return len(bytearray(num_mebibytes << 20))


def ends(code: int) -> NoReturn:
    os._exit(code)


def begins(path: str) -> NoReturn:
    """Write the process's id to a file, then wait."""
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(600)
    raise AssertionError


def source_after(kind: str, path: str) -> str:
    """Stand in for `source_of`: write the process's id to the file, wait until the file is gone, then refuse."""
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    while Path(path).exists():
        time.sleep(0.01)
    raise ValueError(f"structured_outputs cannot be compiled: this {kind} is gone")


def fails() -> NoReturn:
    raise ValueError("structured_outputs cannot be compiled: head is undefined")
