"""An answer belongs to its caller: a later call must not change it.

Watches the public functions and methods of a phase's module, for the graded tests and for the judge alike. A change
counts if it happens during a call that was not given the answer: the caller itself may change what it was given.
"""

import sys
import tracemalloc
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request
from mini_vllm_labs.runs.sandbox.frames import short

NUM_KEPT = 3  # answers of each function: of two lists that are filled in turn, the third call changes the first
PLAIN = (str, bytes, range, frozenset, type, Request, KVCacheBlock)  # not an answer's own, or they cannot change
ATOMS = frozenset((int, float, str, bytes, bool, type(None)))
LIVE = ("PagedKVCacheManager.block_ids",)  # a block table is the pool's: it grows while its request lives
FREES = "PagedKVCacheManager.free"  # the engine still holds the table then: what is sent elsewhere needs it


class Changed(NamedTuple):
    """A function whose answer was changed, the function that was called then, and the answer before and after."""

    function: str
    by: str
    before: object
    after: object

    def __str__(self) -> str:
        was, now = short(self.before), short(self.after)
        return f"{self.function} returned {was}. After a call of {self.by} the same answer is {now}."


class EarlierAnswers:
    """The last answers of a phase. `changed` is the first that a later call has changed."""

    def __init__(self, phase: ModuleType) -> None:
        self.phase = phase
        self.is_watching = False
        self.changed: Changed | None = None
        self._kept: defaultdict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=NUM_KEPT))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the calls of the block, from nothing on."""
        self.changed, self.is_watching = None, True
        limit = sys.getrecursionlimit()
        # A method that calls itself goes through its wrapper each time: it may still recurse as deep as without one.
        sys.setrecursionlimit(2 * limit)
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)
            self.is_watching = False
            self._kept.clear()

    def ignores(self, caller: object) -> bool:
        """Return whether a call is within the learner's own file, or one whose cost or leftovers are measured."""
        return not self.is_watching or caller is vars(self.phase) or tracemalloc.is_tracing()

    def call(self, name: str, function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Make a call, and look at the earlier answers before and after it."""
        given = {id(value) for value in (*positional, *named.values())}
        earlier = [
            (function_name, answer, snapshot(answer))
            for function_name, answers in self._kept.items()
            for answer in answers
            if id(answer) not in given and (function_name not in LIVE or name == FREES)
        ]
        self.is_watching = False  # what the call makes others call is not its caller's
        try:
            found = function(*positional, **named)
        finally:
            self.is_watching = True
            for function_name, answer, before in earlier:
                if not self.changed and not same(before, after := snapshot(answer)):
                    self.changed = Changed(function_name, name, plain(before), plain(after))
        if is_container(found):
            self._kept[name].append(found)
        return found


def is_container(value: object) -> bool:
    """Return whether a value can be read twice, and may change in between."""
    if isinstance(value, tuple):
        return any(map(is_container, value))
    return not isinstance(value, PLAIN) and (
        isinstance(value, Collection) or hasattr(value, "tolist") or is_dataclass(value)
    )


def is_flat(value: Any) -> bool:
    """Return whether a list, a dict or a set holds numbers and texts alone."""
    if type(value) not in (list, dict, set):
        return False
    return ATOMS.issuperset(map(type, value.values() if isinstance(value, dict) else value))


def snapshot(value: Any) -> Any:
    """Return what a container holds now; tensors and arrays as copies, all that is no container as it is."""
    if is_flat(value):  # most answers: as fast as it can be
        return value.copy()
    if not is_container(value):
        return value
    if hasattr(value, "tolist"):
        return value.clone() if hasattr(value, "clone") else value.copy()
    if is_dataclass(value):
        return {field.name: snapshot(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: snapshot(item) for key, item in value.items()}
    return [snapshot(item) for item in value]


def same(before: Any, after: Any) -> bool:
    """Return whether two snapshots hold the same; NaN is the same as NaN."""
    if is_flat(before) and type(before) is type(after) and before == after:
        return not isinstance(before, dict) or [*before] == [*after]
    if hasattr(before, "tolist"):
        equal = (before == after) | ((before != before) & (after != after))
        return before.shape == after.shape and bool(equal.all())
    if isinstance(before, dict):
        return [*before] == [*after] and all(map(same, before.values(), after.values()))
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same, before, after))
    return before is after or bool(before == after)


def plain(value: Any) -> Any:
    """Return a snapshot with lists in place of tensors and arrays."""
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


@contextmanager
def earlier_answers(phase: ModuleType) -> Iterator[EarlierAnswers]:
    """Let the public functions and methods of a module be watched while the block runs."""
    earlier, changed = EarlierAnswers(phase), list[tuple[Any, str, object]]()
    kinds = {kind for kind in vars(phase).values() if isinstance(kind, type) and kind.__module__ == phase.__name__}
    for owner, prefix in [(phase, ""), *((kind, f"{kind.__name__}.") for kind in kinds)]:
        for name, thing in list(vars(owner).items()):
            label = prefix + name
            if not name.startswith("_") and (other := watching(earlier, label, thing)) is not None:
                changed.append((owner, name, thing))
                setattr(owner, name, other)
    try:
        yield earlier
    finally:
        for owner, name, thing in changed:
            setattr(owner, name, thing)


def watching(earlier: EarlierAnswers, name: str, thing: Any) -> Any:
    """Return a function or property of the phase that is watched, None for anything else."""
    if isinstance(thing, property) and thing.fget is not None:
        getter = watching(earlier, name, thing.fget)
        return getter and property(getter, thing.fset, thing.fdel, thing.__doc__)
    is_function = isinstance(thing, FunctionType) or hasattr(thing, "cache_info")
    if not is_function or thing.__module__ != earlier.phase.__name__:
        return None

    @wraps(thing)
    def function(*positional: Any, **named: Any) -> Any:
        if earlier.ignores(sys._getframe(1).f_globals):
            return thing(*positional, **named)
        return earlier.call(name, thing, *positional, **named)

    return function
