"""Detects calls that change an earlier answer or return it again, because an answer belongs to its caller.

Graded tests and the judge both watch the public functions and methods of a phase's module. A change counts only if it
happens during a call that did not receive the answer as an argument; callers may change their own answers.
`own_containers.py` also finds answers that other code holds.
"""

import sys
import tracemalloc
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, Protocol

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request
from mini_vllm_labs.grading.plays.own_containers import ATOMS, OwnContainers, Shared, lists_of
from mini_vllm_labs.runs.sandbox.frames import short

NUM_WATCHED = 1000  # limit of recorded calls per function and test; a policy may be called 100,000 times
NUM_CHECKED = 300  # of these, the number that are also checked for containers that another object holds
# answers kept per function: if a function fills two lists in turn, its third call changes its first answer
NUM_KEPT = 3
PLAIN = (str, bytes, range, frozenset, type, Request, KVCacheBlock)  # immutable, or not owned by the answer
LIVE = ("PagedKVCacheManager.block_ids",)  # a block table belongs to the manager, and grows as its request does
# must not change the table, because the engine needs it to send blocks to another process
FREES = "PagedKVCacheManager.free"


class Changed(NamedTuple):
    """A function whose answer changed, the function called in the meantime, and the answer before and after."""

    function: str
    by: str
    before: object
    after: object

    def __str__(self) -> str:
        was, now = short(self.before), short(self.after)
        return f"{self.function} returned {was}. After a call of {self.by} the same answer is {now}."


class KeptAnswer:
    """An answer, and its contents when they were last checked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.look()

    def look(self) -> None:
        """Remember the contents."""
        self.is_flat = is_flat(self.answer)
        self.seen = self.answer.copy() if self.is_flat else snapshot(self.answer)

    def is_as_seen(self) -> bool:
        """Return whether the contents are the same. The comparison runs before and after every call, so it copies
        little."""
        if not self.is_flat:
            return same(self.seen, snapshot(self.answer))
        try:
            return bool(self.answer == self.seen) and (type(self.seen) is not dict or [*self.answer] == [*self.seen])
        except Exception:  # a tensor was involved, and tensors compare as neither equal nor unequal
            return False


class EarlierAnswers:
    """The most recent answers of a phase. `changed` describes the first answer that does not belong to its caller
    alone."""

    def __init__(self, phase: ModuleType) -> None:
        self.phase = phase
        self.is_watching = False
        self.changed: Changed | Shared | None = None
        self._own = OwnContainers()
        self._num_calls = Counter[str]()
        self._kept: defaultdict[str, deque[KeptAnswer]] = defaultdict(lambda: deque(maxlen=NUM_KEPT))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the calls in the `with` block, starting without earlier answers."""
        self.changed, self.is_watching = None, True
        limit = sys.getrecursionlimit()
        # A recursive method enters its wrapper at every level, and must still be able to recurse as deep as usual.
        sys.setrecursionlimit(2 * limit)
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)
            self.is_watching = False
            self._kept.clear()
            self._own.clear()
            self._num_calls.clear()

    def ignores(self, caller: object) -> bool:
        """Return whether to skip a call, because it comes from the learner's own file or its cost is being measured."""
        return not self.is_watching or caller is vars(self.phase) or tracemalloc.is_tracing()

    def call(self, name: str, function: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Make a call; if it is still being watched, compare the earlier answers before and after it."""
        self._num_calls[name] += 1
        if self._num_calls[name] > NUM_WATCHED:
            return function(*positional, **named)
        values = (*positional, *named.values())
        is_one_of_the_first = self._num_calls[name] <= NUM_CHECKED
        given, lists = {id(value) for value in values}, lists_of(values) if is_one_of_the_first else {}
        earlier = [
            (function_name, kept)
            for function_name, answers in self._kept.items()
            if function_name not in LIVE or name == FREES
            for kept in answers
            if id(kept.answer) not in given
        ]
        for _, kept in earlier:
            if not kept.is_as_seen():  # the caller has modified its answer
                kept.look()
        self.is_watching = False  # ignores calls made inside this one
        try:
            found = function(*positional, **named)
        finally:
            self.is_watching = True
            for function_name, kept in earlier:
                if not self.changed and not kept.is_as_seen():
                    self.changed = Changed(function_name, name, plain(kept.seen), plain(snapshot(kept.answer)))
        if is_one_of_the_first:
            self.changed = self.changed or self._own.check(name, found, values, lists)
        if is_container(found):
            self._kept[name].append(KeptAnswer(found))
        return found


def is_container(value: object) -> bool:
    """Return whether a value can be read repeatedly and is mutable."""
    if isinstance(value, tuple):
        return any(map(is_container, value))
    return not isinstance(value, PLAIN) and (
        isinstance(value, Collection) or hasattr(value, "tolist") or is_dataclass(value)
    )


def is_flat(value: Any) -> bool:
    """Return whether a list, dict or set contains only numbers and strings."""
    if type(value) not in (list, dict, set):
        return False
    return ATOMS.issuperset(map(type, value.values() if isinstance(value, dict) else value))


def snapshot(value: Any) -> Any:
    """Copy the contents of a container, including tensors and arrays; return other values unchanged."""
    if is_flat(value):  # fast path for most answers
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
    """Return whether two snapshots are equal; NaN equals NaN."""
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
    """Convert the tensors and arrays of a snapshot to lists."""
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


class CallListener(Protocol):
    """Receives the calls to a module's public functions and methods, except those from callers that it ignores."""

    phase: Any

    def ignores(self, caller: object) -> bool: ...

    def call(self, name: str, function: Callable[..., Any], *positional: Any, **named: Any) -> Any: ...


@contextmanager
def earlier_answers(phase: ModuleType) -> Iterator[EarlierAnswers]:
    """Wrap the public functions and methods of a module, so that they can be watched in the `with` block."""
    earlier = EarlierAnswers(phase)
    with wrapped(earlier):
        yield earlier


@contextmanager
def wrapped(listener: CallListener) -> Iterator[None]:
    """Pass all calls of the module's public functions and methods to `listener`, in the `with` block."""
    phase, changed = listener.phase, list[tuple[Any, str, object]]()
    named = [kind for kind in vars(phase).values() if isinstance(kind, type)]
    kinds = {base for kind in named for base in kind.__mro__ if base.__module__ == phase.__name__}
    for owner, prefix in [(phase, ""), *((kind, f"{kind.__name__}.") for kind in kinds)]:
        for name, thing in list(vars(owner).items()):
            label = prefix + name
            if not name.startswith("_") and (other := watching(listener, label, thing)) is not None:
                changed.append((owner, name, thing))
                setattr(owner, name, other)
    try:
        yield
    finally:
        for owner, name, thing in changed:
            setattr(owner, name, thing)


def watching(listener: CallListener, name: str, thing: Any) -> Any:
    """Return the watched version of a function or property of the phase; None for anything else."""
    if isinstance(thing, property) and thing.fget is not None:
        getter = watching(listener, name, thing.fget)
        return getter and property(getter, thing.fset, thing.fdel, thing.__doc__)
    is_function = isinstance(thing, FunctionType) or hasattr(thing, "cache_info")
    if not is_function or thing.__module__ != listener.phase.__name__:
        return None

    @wraps(thing)
    def function(*positional: Any, **named: Any) -> Any:
        if listener.ignores(sys._getframe(1).f_globals):
            return thing(*positional, **named)
        return listener.call(name, thing, *positional, **named)

    return function
