"""`python -m tests.grading.leak_check PHASE`: try every shipped function in the place of each function of a phase.

The reference runs through the graded tests, and some of its calls are kept. A shipped function that answers all of them
alike, by itself or behind an adapter of a line, is printed: a starter that names it would get points for it.
"""

import inspect
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any

import pytest

from classroom.student_edition.edition import compose
from course.grading.plan import load_whole_plan
from tests.mutants.catalog import module_name

MAX_TRIED_CALLS, MAX_CALLS_ALIKE = 20, 4
SECONDS = 3
Function = Callable[..., Any]


@dataclass(frozen=True)
class Call:
    """One call of the reference: its arguments, and what it returned and left of them."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    outcome: list[object]


def view(value: Any, depth: int = 4) -> object:
    """Return what can be compared of a value."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if depth == 0 or callable(value):
        return type(value).__name__
    if isinstance(value, Mapping):
        return {str(key): view(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [view(inner, depth - 1) for inner in value]
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())] or getattr(
        value, "__dict__", {}
    )
    return {name: view(getattr(value, name, None), depth - 1) for name in names}


def outcome_of(function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> list[object]:
    """Call a function with copies of the arguments; return its answer and what it left of them."""
    args, named = deepcopy((args, named))
    return [view(function(*args, **named)), view(args), view(named)]


def calls_of_reference(phase: int) -> dict[str, list[Call]]:
    """Run the graded tests on the reference; return some calls of each function, with different outcomes."""
    module = import_module(f"solutions.{module_name(phase)}")
    (plan,) = (plan for plan in load_whole_plan() if plan.number == phase)
    calls: defaultdict[str, list[Call]] = defaultdict(list)

    def kept(name: str, function: Function) -> Function:
        @wraps(function)
        def keeping(*args: Any, **named: Any) -> Any:
            before = None
            if len(calls[name]) < MAX_TRIED_CALLS:
                try:
                    before = deepcopy((args, named))
                    outcome = outcome_of(function, *before)
                except Exception:
                    before = None
            if before and [call.outcome[0] for call in calls[name]].count(outcome[0]) < MAX_CALLS_ALIKE:
                calls[name].append(Call(*before, outcome))
            return function(*args, **named)

        return keeping

    for name in plan.names:
        owner, _, inner = name.rpartition(".")
        holder = getattr(module, owner) if owner else module
        found = inspect.getattr_static(holder, inner)
        if inspect.isfunction(found) and inner != "__init__":
            setattr(holder, inner, kept(name, found))
    # A few tests fail: they count how often a queue is used, and a copy of a call uses it too.
    pytest.main([plan.folder, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"])
    return calls


def shipped_functions() -> dict[str, Function]:
    """Return the functions and methods of the student edition, and those of objects that are made without arguments."""
    found: dict[str, Function] = {}
    for path in compose():
        name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        is_code = path.endswith(".py") and "/" in path and not path.endswith("__main__.py")
        if not is_code or ".starter" in name or ".test_" in name or ".optional_" in name or name.endswith("_main"):
            continue
        try:
            module = import_module(name)
        except Exception:
            continue
        for value in [value for value in vars(module).values() if getattr(value, "__module__", None) == name]:
            if inspect.isfunction(value):
                found[f"{name}.{value.__qualname__}"] = value
            elif inspect.isclass(value):
                functions = {key: one for key, one in vars(value).items() if inspect.isfunction(one)}
                found |= {f"{name}.{one.__qualname__}": one for one in functions.values()}
                try:
                    made = value()
                except Exception:
                    continue
                found |= {f"{name}.{value.__qualname__}().{key}": getattr(made, key) for key in functions}
    return found


def adapters(function: Function, names: list[str]) -> Iterator[Function]:
    """Yield the function, and ways to call it with other arguments in one line. `names` are the task's parameters."""
    yield function
    yield lambda *args, **named: function(*args[1:], **named)
    yield lambda *args, **named: function(None, *args, **named)
    yield lambda *args, **named: function(*args[::-1], **named)
    wanted = [key for key in inspect.signature(function).parameters if key in names]
    yield lambda *args, **named: function(
        **{key: value for key, value in {**dict(zip(names, args, strict=False)), **named}.items() if key in wanted}
    )


def answers(function: Function, calls: list[Call], names: list[str]) -> bool:
    """Return whether a function gives the outcome of every call, behind one of the adapters."""
    for adapted in adapters(function, names):
        try:
            if all(outcome_of(adapted, call.args, call.named) == call.outcome for call in calls):
                return True
        except (Exception, SystemExit):
            continue
    return False


def try_all(shipped: dict[str, Function], calls: dict[str, list[Call]], parameters: dict[str, list[str]]) -> list[str]:
    """Try the functions in forked processes: one that ends or loops costs only itself. Return what answers alike."""
    left, found = list(shipped), []
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.fork = os.abort  # a function that forks would have two processes go on from here
            with os.fdopen(writer, "w", buffering=1) as told, open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
                for name in left:
                    print(name, file=told)
                    signal.alarm(SECONDS)
                    for task in calls:
                        if answers(shipped[name], calls[task], parameters[task]):
                            print(f"! {task}: {name}", file=told)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            seen = lines.read().splitlines()
        os.waitpid(child, 0)
        found += [line for line in seen if line.startswith("! ")]
        left = left[sum(not line.startswith("! ") for line in seen) :]
    return found


def main(phase: int) -> None:
    """Print each task's function that a shipped one answers for."""
    os.environ["LAB_IMPL"] = "solution"
    (plan,) = (plan for plan in load_whole_plan() if plan.number == phase)
    calls = {name: found for name, found in calls_of_reference(phase).items() if len(found) > 2}
    shipped = shipped_functions()
    signatures = {name: inspect.signature(eval(f"lambda {plan.names[name][1:-1]}: 0")) for name in calls}
    parameters = {name: list(signature.parameters) for name, signature in signatures.items()}
    print(f"{len(shipped)} shipped functions tried for {len(calls)} of phase {phase}: {', '.join(calls)}")
    for line in try_all(shipped, calls, parameters):
        print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]))
