"""Finds recorded runs of the reference, which a notebook shows while the learner's engine has unwritten tasks.

`python -m mini_vllm_labs.upkeep.recorded_runs` creates them. A run is found by its function and arguments, so a changed
cell has a record only if the changed run was also recorded.
"""

import hashlib
import json
import lzma
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm_labs.fresh.jobs import ChatRun, WorkloadRun
from mini_vllm_labs.notebook.notice import Notice, Remark
from mini_vllm_labs.notebook.record_codec import chosen_fields, from_json
from mini_vllm_labs.notebook.recorded_mark import mark_of

FOLDER = CHECKOUT / "labs" / "observed" / "notebooks"
REFUSED = "refused"


@dataclass(frozen=True)
class Refusal:
    """The message with which the reference rejected a run."""

    text: str


def key_of(function: Callable[..., object], arguments: tuple[object, ...]) -> str:
    """Return the name of a run's record: a digest of the function and its arguments, regardless of the lineup's code.

    Settings at their defaults are omitted, so that adding a setting or phase does not rename any record.
    """
    return hashlib.sha256(f"{function.__qualname__}{_plain(arguments)}".encode()).hexdigest()[:16]


def _plain(value: object) -> str:
    if isinstance(value, Lineup):
        return "".join("-" if impl == "absent" else "x" for impl in astuple(value)).rstrip("-")
    if isinstance(value, WorkloadRun | ChatRun):
        return json.dumps(value.recording.steps)
    if isinstance(value, Mapping):
        return _plain([part for item in value.items() for part in item])
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_plain, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + _plain(chosen_fields(value))
    return repr(value)


def find_record(key: str) -> Any:
    """Return the result of a recorded run, a `Refusal` if it was rejected, or None if there is no record."""
    # the file with the tour's knobs comes last
    for path in sorted(FOLDER.glob("*.xz"), key=lambda path: path.stat().st_size):
        line = read_lines(path).get(key)
        if line is not None:
            return result_in(json.loads(line))
    return None


def result_in(encoded: Any) -> Any:
    """Decode the result on one line of a records file."""
    if isinstance(encoded, dict) and REFUSED in encoded:
        return Refusal(encoded[REFUSED])
    return from_json(encoded)


def recorded_result(phase: int, function: Callable[..., object], arguments: tuple[object, ...]) -> Any:
    """Return the recorded result of a call while `phase` is unwritten, or a `Notice` if there is no record."""
    found = find_record(key_of(function, arguments))
    if found is None:
        appears = f"this one appears here when phase {phase} is written"
        return Remark("Not recorded", f"Only the runs of the unchanged notebooks are; {appears}.")
    if isinstance(found, Refusal):
        return Notice("The engine did not finish", f"{found.text}\n\n{mark_of(phase)}")
    return found


@cache
def read_lines(path: Path) -> dict[str, str]:
    """Return the lines of a records file, each under its key."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return {key: line for key, _, line in (line.partition(" ") for line in lines)}


def write_lines(path: Path, lines: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key} {line}\n" for key, line in lines.items())
    path.write_bytes(lzma.compress(text.encode(), preset=9))
