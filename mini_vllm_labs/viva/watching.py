"""Watches a run of starters line by line, for questions about lines and values."""

import ast
import linecache
import sys
from types import FrameType
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.runs.sandbox.frames import dotted, is_learners, stored_value
from mini_vllm_labs.runs.sandbox.time_limit import phase_of

PLAN = "schedule_step"
Reads = dict[int, tuple[tuple[tuple[str, ...], ...], bool]]


class LineWatch:
    """Records what the starters' lines do while its `with` block runs. Set `step` to each step's number before it runs.

    `seen` contains lists that can be written as JSON. `lines` contains [step, phase, line] for the first time that each
    line ran in each step. `values` contains [step, phase, line, name, value, request id] for each whole number that a
    line reads. `stops` contains [step, line, lines] for each returned plan: the last line of phase 1 before the return,
    and all lines of phase 1 that ran.
    """

    def __init__(self) -> None:
        self.step = 0
        self.seen: dict[str, list[Any]] = {"lines": [], "values": [], "stops": []}
        self._known: set[tuple[int, int, int]] = set()
        self._plan: dict[int, None] = {}
        self._read: dict[str, Reads] = {}
        self._before: Any = None

    def __enter__(self) -> "LineWatch":
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _on_call(self, frame: FrameType, kind: str, value: object) -> Any:
        code = frame.f_code
        if not is_learners(code.co_filename) or code.co_name.startswith("<"):
            return None
        phase = phase_of(frame)
        if code.co_name == PLAN:
            self._plan.clear()

        def on_event(frame: FrameType, kind: str, value: object) -> Any:
            if kind == "line":
                self._on_line(frame, phase)
            elif kind == "return" and code.co_name == PLAN and self._plan:
                self.seen["stops"].append([self.step, next(reversed(self._plan)), list(self._plan)])
            return on_event

        return on_event

    def _on_line(self, frame: FrameType, phase: int) -> None:
        line, file = frame.f_lineno, frame.f_code.co_filename
        if file not in self._read:
            self._read[file] = reads_of("".join(linecache.getlines(file)))
        paths, is_return = self._read[file].get(line, ((), False))
        if phase == 1 and not is_return:
            self._plan.pop(line, None)  # so that lines are ordered by when they last ran
            self._plan[line] = None
        if (self.step, phase, line) in self._known:
            return
        self._known.add((self.step, phase, line))
        self.seen["lines"].append([self.step, phase, line])
        requests = [one.request_id for one in frame.f_locals.values() if isinstance(one, Request)]
        for path in paths:
            value, known = stored_value(path, frame.f_locals)
            if known and type(value) is int:
                who = requests[0] if len(set(requests)) == 1 else ""
                self.seen["values"].append([self.step, phase, line, ".".join(path), value, who])


def reads_of(text: str) -> Reads:
    """Return, for each line of a file, the names that it reads, and whether it is a `return`."""
    names: dict[int, dict[tuple[str, ...], None]] = {}
    returns = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Return):
            returns.add(node.lineno)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and (path := dotted(node)):
            names.setdefault(node.lineno, {})[path] = None
    return {line: (tuple(names.get(line, ())), line in returns) for line in names.keys() | returns}
