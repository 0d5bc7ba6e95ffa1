"""`python -m tests.grading.leak_check [PHASE ...]`: try what the student edition ships in the place of each task.

The reference runs through the graded tests, and some of its calls are kept. A shipped function that answers all calls
of a task alike, by itself or behind an adapter of a line, is printed: a starter that names it would get points. A
shipped class that has all methods of a task's class takes its place in the graded tests.
"""

import inspect
import os
import pickle
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, wraps
from importlib import import_module
from itertools import islice
from random import Random
from threading import Lock
from types import ModuleType
from typing import Any

import pytest

from classroom.student_edition.edition import compose
from course.grading.plan import PlannedPhase, load_whole_plan
from course.labtest.strict_queue import StrictQueue
from tests.mutants.catalog import module_name

MIN_CALLS, MAX_CALLS, MAX_CALLS_ALIKE = 3, 40, 12
ALL_TRIED = 100  # of a function's calls all of the first 100 are looked at, of the first 1,000 about 330
CPU_SECONDS, SECONDS, MAX_SHOWN = 0.3, 1, 1000  # the second limit is for a function that waits
MAX_ENDED = 3  # a function that has ended so many processes, or has waited, is not tried any more
FORBIDDEN = ("os.", "subprocess.", "shutil.", "socket.", "pty.", "signal.pthread_kill", "webbrowser.")
HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
NUM_PROCESSES = min(os.cpu_count() or 1, 4)
ONE_PIPE = Lock()  # a child that inherited the other's pipe would keep it open
Function = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Adapter = Callable[[tuple[Any, ...], dict[str, Any]], Arguments] | None


@dataclass(frozen=True)
class Call:
    """One call of the reference: its arguments, and what it returned and left of them."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    outcome: list[object]

    @cached_property
    def pickled(self) -> bytes | None:
        """The arguments as bytes, which make a copy in a tenth of the time; None if that does not give them back."""
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
    """Return what can be compared of a value; an iterator is used up."""
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
    if isinstance(value, set | frozenset):  # a copy has another order
        return sorted([view(inner, depth - 1) for inner in value], key=repr)
    if isinstance(value, list | tuple):
        return [view(inner, depth - 1) for inner in value]
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())] or getattr(
        value, "__dict__", {}
    )
    return {name: view(getattr(value, name, None), depth - 1) for name in names}


def ways(args: tuple[Any, ...], named: dict[str, Any], names: list[str], wanted: Container[str]) -> list[Arguments]:
    """Return arguments as they are, and as a line could pass them on. `names` are the parameters of the task."""
    by_name = {**dict(zip(names, args, strict=False)), **named}
    return [
        (args, named),
        (args[1:], named),
        ((None, *args), named),
        (args[::-1], named),
        ((), {key: value for key, value in by_name.items() if key in wanted}),
    ]


def copy_of_queue(queue: StrictQueue, memo: dict[int, Any]) -> StrictQueue:
    """Return a copy with its own requests: they are in a closure, which `deepcopy` would share."""
    copy = StrictQueue(deepcopy(list(queue._use()), memo))
    queue.cost -= 1
    copy.cost = queue.cost
    return copy


def copy_on_host(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a copy as a shipped function takes it: what the graded tests show as a GPU's tensor lies on the host."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor).clone()


def outcome_of(function: Function, args: tuple[Any, ...], named: dict[str, Any], adapt: Adapter = None) -> list[object]:
    """Return what can be compared of an answer, and of the arguments after it; they may be changed."""
    given, by_name = adapt(args, named) if adapt else (args, named)
    return [view(function(*given, **by_name)), view(args), view(named)]


def keep(call: Call, calls: list[Call], num_seen: dict[str, float], weight: float) -> None:
    """Add a call; if enough have its answer, it may take the place of one, so that they come from all tests of a task.

    It stands for `weight` calls. Where the answer is None, what the call has changed counts, and each change is kept
    once.
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
            if Random(num_calls[name]).random() * weight < 1:
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
            found = inspect.getattr_static(holder, inner)
            if inspect.isfunction(found) and inner != "__init__":
                calls[name] = []
                patch.setattr(holder, inner, kept(name, found))
        pytest.main([plan.folder, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"])
    for kept_calls in calls.values():
        Random(0).shuffle(kept_calls)  # one that counts its calls would know those that come one after the other
    return calls


def is_written(value: object) -> bool:
    """Return whether a value is a function from a file; those that `dataclass` makes have none."""
    return inspect.isfunction(value) and value.__code__.co_filename != "<string>"


def shipped() -> tuple[dict[str, Function], dict[str, type]]:
    """Return the functions and classes of the student edition; methods also of objects made without arguments."""
    functions: dict[str, Function] = {}
    classes: dict[str, type] = {}
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
            if is_written(value):
                functions[f"{name}.{value.__qualname__}"] = value
            elif inspect.isclass(value):
                classes[f"{name}.{value.__qualname__}"] = value
                methods = {key: one for key, one in vars(value).items() if is_written(one)}
                functions |= {f"{name}.{one.__qualname__}": one for one in methods.values()}
                with suppress(Exception):
                    made = value()
                    functions |= {f"{name}.{value.__qualname__}().{key}": getattr(made, key) for key in methods}
    return functions, classes


def fits(signature: inspect.Signature, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Return whether a call has the right number of arguments, and of the kinds that are written as classes."""
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError:
        return False
    kinds = {key: signature.parameters[key].annotation for key in bound}
    return all(
        isinstance(bound[key], kind) or (kind is float and isinstance(bound[key], int))
        for key, kind in kinds.items()
        if type(kind) is type and kind is not inspect.Parameter.empty
    )


def answers(function: Function, calls: list[Call], names: list[str]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    for number, (given, by_name) in enumerate(ways(calls[0].args, calls[0].named, names, signature.parameters)):
        # Without an argument there is no answer to calls that differ; most commands would start their work here.
        if not (given or by_name) or not fits(signature, given, by_name):
            continue

        def adapt(args: tuple[Any, ...], named: dict[str, Any], number: int = number) -> Arguments:
            return ways(args, named, names, signature.parameters)[number]

        try:
            if all(outcome_of(function, *call.arguments(), adapt) == call.outcome for call in calls):
                return True
        except (Exception, SystemExit):
            continue
    return False


def forbid(event: str, args: tuple[Any, ...]) -> None:
    """Keep a function from starting processes, and from writing or removing files: an audit hook."""
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or (event.startswith(FORBIDDEN) and event not in HARMLESS):
        raise PermissionError(event)


class TooLongError(BaseException):
    """The time of a call is over. It is no `Exception`: what is tried shall not go on after it."""


def give_up(number: int, frame: object) -> None:
    raise TooLongError


def in_children(names: list[str], act: Callable[[str], list[str]]) -> list[str]:
    """Call `act` for each name in forked processes: one that ends or loops costs only itself. Return the lines."""
    left, found, num_ended = list(names), list[str](), Counter[str]()
    while left:
        with ONE_PIPE:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.setsid()
                with os.fdopen(writer, "w", buffering=1) as told, open(os.devnull, "w") as nothing:
                    os.dup2(nothing.fileno(), 1)
                    os.dup2(nothing.fileno(), 2)
                    sys.addaudithook(forbid)
                    signal.signal(signal.SIGPROF, give_up)
                    for name in left:
                        print(name, file=told)
                        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
                        signal.alarm(SECONDS)
                        with suppress(TooLongError):
                            for line in act(name):
                                print(f"! {line}", file=told)
                os._exit(0)
            os.close(writer)
        with os.fdopen(reader) as lines:
            seen = lines.read().splitlines()
        os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        found += [line for line in seen if line.startswith("! ")]
        num_done = sum(not line.startswith("! ") for line in seen)
        ended_by = left[num_done - 1].rpartition(": ")[2]
        num_ended[ended_by] += 1
        is_dropped = num_ended[ended_by] == MAX_ENDED
        left = [name for name in left[num_done:] if not (is_dropped and name.endswith(f": {ended_by}"))]
    return found


def try_all(
    functions: Mapping[str, Function], calls: Mapping[str, list[Call]], parameters: Mapping[str, list[str]]
) -> list[str]:
    def act(pair: str) -> list[str]:
        task, _, name = pair.rpartition(": ")
        return [pair] if answers(functions[name], calls[task], parameters[task]) else []

    with ThreadPoolExecutor(NUM_PROCESSES) as pool:
        shares = [list(functions)[first::NUM_PROCESSES] for first in range(NUM_PROCESSES)]
        pairs = [[f"{task}: {name}" for name in share for task in calls] for share in shares]
        found = [line for found in pool.map(in_children, pairs, [act] * NUM_PROCESSES) for line in found]
    # Alone in a process: what answers only after others have changed something does so for no learner.
    return [line for one in found for line in in_children([one.removeprefix("! ")], act)]


def methods_of(plan: PlannedPhase) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in plan.names:
        owner, _, inner = name.rpartition(".")
        if owner:
            found[owner].add(inner)
    return found


class Passed:
    def __init__(self) -> None:
        self.tests: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.tests.add(report.nodeid.split("/", 2)[2])


def try_classes(plan: PlannedPhase, module: ModuleType, classes: Mapping[str, type]) -> list[str]:
    """Put shipped classes in the place of a phase's; return a line for each with which all tests of a task pass."""
    methods = methods_of(plan)

    def act(candidate: str) -> list[str]:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        owner, _, name = candidate.partition(": ")
        setattr(module, owner, classes[name])
        passed = Passed()
        pytest.main([plan.folder, "-q", "-p", "no:cacheprovider", "--tb=no"], plugins=[passed])
        return [f"{plan.number}.{task.number}: {name}" for task in plan.tasks if passed.tests >= set(task.tests)]

    candidates = [
        f"{owner}: {name}"
        for owner, wanted in methods.items()
        for name, kind in classes.items()
        if all(hasattr(kind, method) for method in wanted) and not getattr(kind, "_is_protocol", False)
    ]
    print(f"phase {plan.number}: classes tried: {', '.join(candidates) or 'none'}")
    return in_children(candidates, act)


def place_of(task: str) -> tuple[Any, str]:
    number, _, name = task.partition(" ")
    owner, _, inner = name.rpartition(".")
    module = import_module(f"solutions.{module_name(int(number))}")
    return (getattr(module, owner) if owner else module), inner


def function_of(task: str) -> Function:
    found: Function = getattr(*place_of(task))
    return found


def take_away(task: str) -> None:
    """Let a function of the reference raise: what is tried may call it, and must not answer by that."""

    def unwritten(*args: Any, **named: Any) -> Any:
        raise NotImplementedError(task)

    setattr(*place_of(task), unwritten)


def main(numbers: Container[int]) -> None:
    os.environ["LAB_IMPL"] = "solution"
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked process waits for ever for threads that it does not have
    from course.labtest.device_tensors import DeviceTensor  # after the setting: torch reads it when it is loaded

    StrictQueue.__deepcopy__ = copy_of_queue  # type: ignore[attr-defined]
    DeviceTensor.__deepcopy__ = copy_on_host  # type: ignore[method-assign]
    calls: dict[str, list[Call]] = {}
    parameters: dict[str, list[str]] = {}
    functions, classes = shipped()
    found: list[str] = []
    for plan in load_whole_plan():
        if plan.number not in numbers:
            continue
        module = import_module(f"solutions.{module_name(plan.number)}")
        for name, kept in calls_of_reference(plan, module).items():
            task = f"{plan.number} {name}"
            calls[task] = kept
            parameters[task] = list(inspect.signature(eval(f"lambda {plan.names[name][1:-1]}: 0")).parameters)
            # A control: what is not recognised by its own calls would not be found anywhere.
            if len(kept) < MIN_CALLS or not answers(function_of(task), kept, parameters[task]):
                print(f"not recognised: {task}")
                del calls[task]
        found += try_classes(plan, module, classes)
    for task in calls:
        take_away(task)
    print(f"{len(functions)} shipped functions tried for {len(calls)} functions of the phases")
    for line in [*found, *try_all(functions, calls, parameters)]:
        print(line)


if __name__ == "__main__":
    main({int(number) for number in sys.argv[1:]} or {plan.number for plan in load_whole_plan()})
