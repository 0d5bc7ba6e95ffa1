"""Calls a learner's function as a different process would, with a different seed for `hash`."""

import ctypes
import importlib.util
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
import importlib.util, os, pickle, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what the file prints must not mix with the answers
spec = importlib.util.spec_from_file_location("file", sys.argv[1])
sys.modules["file"] = file = importlib.util.module_from_spec(spec)
spec.loader.exec_module(file)
calls = pickle.load(sys.stdin.buffer)
answers.write(pickle.dumps([getattr(file, sys.argv[2])(*call) for call in calls]))
"""
# Simulates the effects of a restart where a process cannot be started.
AFTER_A_RESTART: dict[str, Callable[[Any], int]] = {
    "hash": lambda value: hash((value, SEED)),
    "id": lambda value: id(value) + int(SEED),
}


def answers_elsewhere(phase: ModuleType, name: str, calls: Sequence[tuple[Any, ...]]) -> list[bytes] | str:
    """Return the answers of a new Python process, or its error.

    If no process can be started (browser, judge's jail), a second copy of the module is used. The list is empty if the
    phase has no file (as in the judge's tests).
    """
    import pickle

    if not Path(str(phase.__file__)).is_file():
        return []
    environment = {**os.environ, "PYTHONHASHSEED": SEED, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path])}
    command = [sys.executable, "-c", SCRIPT, str(phase.__file__), name]
    try:
        done = subprocess.run(command, env=environment, input=pickle.dumps(calls), capture_output=True, timeout=60)
    except OSError:
        return answers_of_a_copy(phase, name, calls)
    found: list[bytes] = pickle.loads(done.stdout) if done.stdout else []
    return found or done.stderr.decode()[-300:]


def answers_of_a_copy(phase: ModuleType, name: str, calls: Sequence[tuple[Any, ...]]) -> list[bytes]:
    """Return the answers of a module freshly loaded from the phase's file."""
    spec = importlib.util.spec_from_file_location(phase.__name__, str(phase.__file__))
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    vars(copy).update(AFTER_A_RESTART)
    return [getattr(copy, name)(*call) for call in calls]


@contextmanager
def after_a_restart(phase: ModuleType) -> Iterator[None]:
    """Replace `hash` and `id` in a module with versions that behave as in a different process."""
    vars(phase).update(AFTER_A_RESTART)
    try:
        yield
    finally:
        for name in AFTER_A_RESTART:
            del vars(phase)[name]


def from_another_process(key: Any) -> Any:
    """Return an equal string or bytes object with the `hash` that a different process might compute for it.

    Python caches the hash in the object, after its header and length, on the first call to `hash`.
    """
    if not key or len(key) < 2:  # Python uses a single shared object for each of these
        return key
    copied = "".join([*key]) if isinstance(key, str) else bytes([*key])
    known, place = hash(copied), id(copied) + object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
    kept = ctypes.c_ssize_t.from_address(place)
    if kept.value == known:
        kept.value = hash((key, SEED))
    return copied
