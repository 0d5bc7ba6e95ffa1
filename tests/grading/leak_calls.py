"""Calls of the reference that were recorded in the graded tests, on which shipped functions are tried."""

import pickle
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import getattr_static, isfunction
from itertools import islice
from random import Random
from types import ModuleType
from typing import Any

import pytest

from mini_vllm_labs.grading.plan import PlannedPhase
from mini_vllm_labs.grading.plays.strict_queue import StrictQueue

MAX_CALLS, MAX_CALLS_ALIKE = 40, 12
ALL_TRIED = 20  # which calls of a function are checked: all of the first 20, and about 100 of the first 1,000
GOLDEN_RATIO = 0.6180339887498949  # its multiples are spread evenly modulo 1; a generator per call would take seconds
MAX_SHOWN = 1000  # how many items to take from an iterator, which may be endless
Function = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Adapter = Callable[[tuple[Any, ...], dict[str, Any]], Arguments] | None


@dataclass(frozen=True)
class Call:
    """One call of the reference: its arguments, its result, and the arguments afterwards."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    outcome: list[object]

    @cached_property
    def pickled(self) -> bytes | None:
        """The arguments as bytes, which are ten times as fast to copy; None if they cannot be restored."""
        try:
            arguments = pickle.dumps(deepcopy((self.args, self.named)))
            return arguments if view(pickle.loads(arguments)) == view((self.args, self.named)) else None
        except Exception:
            return None

    def arguments(self) -> Arguments:
        """Return a copy of the arguments, which a function may change."""
        copied: Arguments = deepcopy((self.args, self.named)) if self.pickled is None else pickle.loads(self.pickled)
        return copied


def view(value: Any, depth: int = 4) -> object:
    """Return the comparable part of a value; an iterator is consumed."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, StrictQueue):
        return view(list(value._use()), depth)
    if isinstance(value, Iterator):
        return [view(inner, depth - 1) for inner in islice(value, MAX_SHOWN)]
    if hasattr(value, "tolist"):
        return value.tolist()
    if depth == 0 or callable(value):
        return type(value).__name__
    if isinstance(value, Mapping):
        return {str(key): view(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, set | frozenset):  # a copied set may be ordered differently
        return sorted([view(inner, depth - 1) for inner in value], key=repr)
    if isinstance(value, list | tuple):
        return [view(inner, depth - 1) for inner in value]
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())] or getattr(
        value, "__dict__", {}
    )
    return {name: view(getattr(value, name, None), depth - 1) for name in names}


def copy_of_queue(queue: StrictQueue, memo: dict[int, Any]) -> StrictQueue:
    """Return a copy of a queue with its own requests, which are in a closure that `deepcopy` would share."""
    copy = StrictQueue(deepcopy(list(queue._use()), memo), queue._order)
    queue.cost -= 1
    copy.cost = queue.cost
    return copy


def copy_on_host(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a copy for a shipped function; the graded tests' pretend GPU tensors are copied to the host."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor).clone()


def outcome_of(function: Function, args: tuple[Any, ...], named: dict[str, Any], adapt: Adapter = None) -> list[object]:
    """Return the comparable part of a result, and of the arguments after the call, which may change them."""
    given, by_name = adapt(args, named) if adapt else (args, named)
    return [view(function(*given, **by_name)), view(args), view(named)]


def keep(call: Call, calls: list[Call], num_seen: dict[str, float], weight: float) -> None:
    """Add a call. Add a call, or replace one with the same answer if there are already enough, to sample all tests.

    The added call represents `weight` calls. If the answer is None, the call's changes to its arguments are compared
    instead, and each change is kept once.
    """
    of = slice(None) if call.outcome[0] is None else slice(1)
    num_seen[str(call.outcome[of])] += weight
    alike = [at for at, kept in enumerate(calls) if kept.outcome[of] == call.outcome[of]]
    num_alike = num_seen[str(call.outcome[of])]
    if len(alike) < (1 if call.outcome[0] is None else MAX_CALLS_ALIKE):
        calls += [call] * (len(calls) < MAX_CALLS)
    elif (place := int(Random(num_alike).random() * num_alike / weight)) < len(alike):  # reservoir sampling
        calls[alike[place]] = call


def calls_of_reference(plan: PlannedPhase, module: ModuleType) -> dict[str, list[Call]]:
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    num_calls = Counter[str]()
    num_seen = defaultdict[str, dict[str, float]](lambda: defaultdict(float))

    def kept(name: str, function: Function) -> Function:
        @wraps(function)
        def keeping(*args: Any, **named: Any) -> Any:
            num_calls[name] += 1
            weight = max(1.0, num_calls[name] / ALL_TRIED)
            # The copies would count as the function's work, and would take minutes.
            is_measured = sys.gettrace() is not None
            if not is_measured and num_calls[name] * GOLDEN_RATIO % 1 * weight < 1:
                with suppress(Exception):
                    before = deepcopy((args, named))
                    call = Call(*before, outcome_of(function, *deepcopy(before)))
                    keep(call, calls[name], num_seen[name], weight)
            return function(*args, **named)

        return keeping

    with pytest.MonkeyPatch.context() as patch:
        for name in plan.names:
            owner, _, inner = name.rpartition(".")
            holder = getattr(module, owner) if owner else module
            found = getattr_static(holder, inner)
            if isfunction(found) and inner != "__init__":
                calls[name] = []
                patch.setattr(holder, inner, kept(name, found))
        pytest.main([plan.folder, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "--timeout", "0"])
    for kept_calls in calls.values():
        Random(0).shuffle(kept_calls)  # a function that counts its calls would notice successive calls
    return calls
