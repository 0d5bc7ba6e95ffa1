"""Describes a position in the learner's code: the line, and the shortened values of its variables."""

import ast
import inspect
import linecache
import traceback
from collections.abc import Iterator, Sized
from pathlib import Path
from reprlib import Repr
from types import FrameType, MemberDescriptorType, ModuleType, TracebackType
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT

MAX_VARIABLES = 6
MAX_CHARACTERS = 60


def is_learners(file: str) -> bool:
    path = Path(file)
    return path.name == "starter.py" and path.parent.parent == CHECKOUT / "labs"


def learners_frames(tb: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the learner's frames in a traceback with their line numbers, outermost first."""
    return [(frame, line) for frame, line in traceback.walk_tb(tb) if is_learners(frame.f_code.co_filename)]


def place(file: str, line: int, function: str) -> str:
    source = linecache.getline(file, line).strip()
    inside = "" if function == "<module>" else f", in {function}"
    return f"labs/{Path(file).parent.name}/starter.py:{line}{inside}" + (f": {source}" if source else "")


def place_of(frame: FrameType, line: int) -> str:
    return place(frame.f_code.co_filename, line, frame.f_code.co_qualname)


def call_of(frame: FrameType) -> str:
    """Return a frame's call with the current values of its parameters, as in `clamp(num_new=8, budget=10)`."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = [f"{name}={short(frame.f_locals[name])}" for name in names if name in frame.f_locals and name != "self"]
    return f"{code.co_qualname}({', '.join(shown)})"


def variables_at(frame: FrameType, line: int, *, in_loop: bool = False) -> list[str]:
    """Return `name = value` for each variable in a line and, with `in_loop`, in its innermost loop."""
    found: dict[str, str] = {}
    for path in _paths_read(frame.f_code.co_filename, line, in_loop):
        value, known = stored_value(path, frame.f_locals)
        if known:
            found[".".join(path)] = short(value)
    return [f"{name} = {value}" for name, value in found.items()][:MAX_VARIABLES]


def _paths_read(file: str, line: int, in_loop: bool) -> Iterator[tuple[str, ...]]:
    """Yield names and dotted names such as ("budget",) or ("step", "token_budget"), beginning with those in the line
    itself."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _spans(node, line)]
    loops = [node for node in around if isinstance(node, ast.While | ast.For)] if in_loop else []
    for statement in [*around[-1:], *loops[-1:]]:
        for node in ast.walk(statement):
            of_this = isinstance(node, ast.Name | ast.Attribute) and (in_loop or node.lineno == line)
            if of_this and (path := dotted(node)):
                yield path


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def dotted(node: ast.AST) -> tuple[str, ...]:
    """Return the parts of a name or dotted name, or an empty tuple for other nodes."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return (*before, node.attr)
    return ()


def stored_value(path: tuple[str, ...], variables: dict[str, Any]) -> tuple[object, bool]:
    """Return the value of a dotted name and whether it is known, without running the learner's code."""
    if path[0] not in variables:
        return None, False
    value = variables[path[0]]
    for name in path[1:]:
        # Reading a slot or a `__dict__` entry does not run any code; reading a property would.
        stored = isinstance(inspect.getattr_static(type(value), name, None), MemberDescriptorType)
        if not stored and name not in getattr(value, "__dict__", {}):
            return None, False
        value = getattr(value, name, None)
    return value, path != ("self",) and not callable(value) and not isinstance(value, ModuleType)


class ShortRepr(Repr):
    """Shortens values for learners: shows requests and blocks by name, tensors by shape."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdeque = self.maxdict = self.maxset = 6
        self.maxstring = self.maxother = MAX_CHARACTERS
        self.maxlevel = 3

    def repr_Request(self, request: Any, level: int) -> str:  # noqa: N802
        return f"{request.request_id} {request.num_computed_tokens}/{request.num_tokens}"

    def repr_KVCacheBlock(self, block: Any, level: int) -> str:  # noqa: N802
        return f"block {block.block_id}"

    def repr_Tensor(self, tensor: Any, level: int) -> str:  # noqa: N802
        return f"tensor of shape {tuple(tensor.shape)}"

    def repr_SchedulerOutput(self, step: Any, level: int) -> str:  # noqa: N802
        plan = self.repr1(step.num_scheduled_tokens, level - 1)
        return f"SchedulerOutput(token_budget={step.token_budget}, {plan})"

    def repr_FCFSRequestQueue(self, queue: Any, level: int) -> str:  # noqa: N802
        return self.repr1(list(queue), level)

    def repr_RequestStatus(self, status: Any, level: int) -> str:  # noqa: N802
        return str(status.name)

    def repr_function(self, function: Any, level: int) -> str:
        return f"the function {function.__name__}"

    def repr_instance(self, value: Any, level: int) -> str:
        name = f"a {type(value).__name__}"
        try:
            text = repr(value)
        except Exception:  # a learner's `__repr__` may raise
            return name
        return name if text.startswith("<") or len(text) > MAX_CHARACTERS else text


def short(value: object) -> str:
    try:
        text = ShortRepr().repr(value)
        if len(text) <= MAX_CHARACTERS or not isinstance(value, Sized):
            return text
        return f"{text[:MAX_CHARACTERS]}... ({len(value)} entries)"
    except Exception:
        return f"a {type(value).__name__}"
