"""Calls of a learner's function as another process makes them: one with another seed of `hash`."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT

SEED = "4711"
SCRIPT = """
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("file", sys.argv[1])
spec.loader.exec_module(file := importlib.util.module_from_spec(spec))
calls = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([getattr(file, sys.argv[2])(*call) for call in calls]))
"""
# What a restart changes, where no process can be started.
AFTER_A_RESTART: dict[str, Callable[[Any], int]] = {
    "hash": lambda value: hash((value, SEED)),
    "id": lambda value: id(value) + int(SEED),
}


def answers_elsewhere(phase: ModuleType, name: str, calls: Sequence[tuple[Any, ...]]) -> list[bytes] | str:
    """Return the answers of another Python process, empty where none can be started; or the error that it ends with.

    A browser and the judge's jail start none, and the judge's tests have no file.
    """
    import pickle

    if not Path(str(phase.__file__)).is_file():
        return []
    environment = {**os.environ, "PYTHONHASHSEED": SEED, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path])}
    command = [sys.executable, "-c", SCRIPT, str(phase.__file__), name]
    try:
        done = subprocess.run(command, env=environment, input=pickle.dumps(calls), capture_output=True, timeout=60)
    except OSError:
        return []
    found: list[bytes] = pickle.loads(done.stdout) if done.stdout else []
    return found or done.stderr.decode()[-300:]


@contextmanager
def after_a_restart(phase: ModuleType) -> Iterator[None]:
    """Let the functions of a module find `hash` and `id` as another process has them."""
    vars(phase).update(AFTER_A_RESTART)
    try:
        yield
    finally:
        for name in AFTER_A_RESTART:
            del vars(phase)[name]


def from_another_process(key: Any) -> Any:
    """Return an equal text, or bytes, whose `hash` is what another process may have for it.

    Python keeps that number in the object, after its header and its length, once it has been asked for.
    """
    if not key or len(key) < 2:  # of these there is one object
        return key
    copied = "".join([*key]) if isinstance(key, str) else bytes([*key])
    known, place = hash(copied), id(copied) + object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
    kept = ctypes.c_ssize_t.from_address(place)
    if kept.value == known:
        kept.value = hash((key, SEED))
    return copied
