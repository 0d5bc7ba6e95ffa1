"""Harmless functions that tests call in a `GrammarProcess`, whose child imports them from here."""

import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from mini_vllm.electives.automaton import Nfa


def process_id() -> int:
    return os.getpid()


def modules() -> set[str]:
    return set(sys.modules)


def environment(name: str) -> str | None:
    return os.environ.get(name)


def takes(num_mebibytes: int) -> int:
    return len(bytearray(num_mebibytes << 20))


def ends(code: int) -> NoReturn:
    os._exit(code)


def prints(text: str) -> str:
    print(text, flush=True)
    sys.stdout.buffer.write(b"\x80\x04.")
    return sys.stdin.read()


def begins(path: str) -> NoReturn:
    """Write the process's id to a file, then wait."""
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    time.sleep(600)
    raise AssertionError


def source_after(kind: str, path: str) -> str:
    """Stand in for `source_of`: write the process's id to the file, wait until the file has gone, refuse."""
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    while Path(path).exists():
        time.sleep(0.01)
    raise ValueError(f"structured_outputs cannot be compiled: this {kind} has gone")


def endless_dfa(nfa: Nfa, alphabet: frozenset[int]) -> NoReturn:
    while True:
        time.sleep(0.01)


class OddError(Exception):
    """An error that can be pickled but not unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def fails(kind: str) -> Any:
    if kind == "odd":
        raise OddError("very", "odd")
    if kind == "local":
        return lambda: None
    raise NotImplementedError("Phase 9, task 2: build_dfa")
