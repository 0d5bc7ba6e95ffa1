"""`python -m tests.grading.leak_check [PHASE ...]` tries the code that the student edition ships in place of each task.

The reference runs through the graded tests, and some of its calls are stored. A shipped function that gives the
reference's answers to all of a task's calls, directly or through a one-line adapter, is printed: a starter calling it
would get points. A shipped class that has all methods of a task's class replaces that class in the graded tests.
"""

import gc
import inspect
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any

import pytest

from mini_vllm_labs.classroom.student_edition.edition import compose
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.plays.strict_queue import StrictQueue
from tests.grading.leak_calls import (
    Arguments,
    Call,
    Function,
    calls_of_reference,
    copy_of_queue,
    copy_on_host,
    outcome_of,
)
from tests.mutants.catalog import module_name

MIN_CALLS = 3
CPU_SECONDS, SECONDS = 0.3, 1  # the second limit is for a function that only waits
MAX_ENDED = 3  # a function that has killed this many processes, or has only waited, is not tried again
FORBIDDEN = ("os.", "subprocess.", "shutil.", "socket.", "pty.", "signal.pthread_kill", "webbrowser.")
HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
NUM_PROCESSES = min(os.cpu_count() or 1, 4)
ONE_PIPE = Lock()  # a child that inherited another child's pipe would keep that pipe open


def ways(args: tuple[Any, ...], named: dict[str, Any], names: list[str], wanted: Container[str]) -> list[Arguments]:
    """Return the arguments unchanged, and the variants of them that one line of code could pass on.

    `names` are the parameters of the task.
    """
    by_name = {**dict(zip(names, args, strict=False)), **named}
    return [
        (args, named),
        (args[1:], named),
        ((None, *args), named),
        (args[::-1], named),
        ((), {key: value for key, value in by_name.items() if key in wanted}),
    ]


def is_written(value: object) -> bool:
    """Return whether a value is a function from a file; functions that `dataclass` generates have no file."""
    return inspect.isfunction(value) and value.__code__.co_filename != "<string>"


def shipped() -> tuple[dict[str, Function], dict[str, type]]:
    """Return the student edition's functions and classes, including methods of objects made without arguments."""
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
    """Return whether a call has the right number of arguments, of the types that are annotated as classes."""
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


@cache
def signature_of(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def answers(function: Function, calls: list[Call], names: list[str]) -> bool:
    signature = signature_of(function)
    if signature is None:
        return False
    for number, (given, by_name) in enumerate(ways(calls[0].args, calls[0].named, names, signature.parameters)):
        # A function without arguments has no differing calls to compare, and without this check most of the course's
        # commands would start running here.
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
    """Use an audit hook to keep a function from starting processes and from writing or removing files."""
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or (event.startswith(FORBIDDEN) and event not in HARMLESS):
        raise PermissionError(event)


class TooLongError(BaseException):
    """Raised when a call's time is up.

    Not an `Exception`, so that the code under test does not catch it and continue.
    """


def give_up(number: int, frame: object) -> None:
    raise TooLongError


def in_children(names: list[str], act: Callable[[str], list[str]], *, is_guarded: bool = True) -> list[str]:
    """Call `act` for each name in forked processes, so that a name that exits or loops affects no others.

    Return the lines. pytest cannot run if `is_guarded`, which limits processor time and refuses temporary files.
    """
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
                    if is_guarded:
                        sys.addaudithook(forbid)
                    signal.signal(signal.SIGPROF, give_up)
                    for name in left:
                        print(name, file=told)
                        if is_guarded:
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
    # Each function runs in a process by itself, because a learner's answers would not depend on earlier calls.
    return [line for one in found for line in in_children([one.removeprefix("! ")], act)]


def methods_of(plan: PlannedPhase) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in plan.names:
        owner, _, inner = name.rpartition(".")
        if owner:
            found[owner].add(inner)
    return found


class Passed:
    """Finds which of the tasks numbered `wanted` pass all their tests.

    Other tasks' tests are not run, nor are a task's remaining tests after its first failure.
    """

    def __init__(self, plan: PlannedPhase, wanted: Container[int]) -> None:
        self.tests: set[str] = set()
        self.tasks = {test: set(task.tests) for task in plan.tasks for test in task.tests}
        self.skipped = {test for task in plan.tasks if task.number not in wanted for test in task.tests}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return True if item.nodeid.split("/", 2)[2] in self.skipped else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.split("/", 2)[2]
        if report.failed:
            self.skipped |= self.tasks.get(test, set())
        elif report.when == "call" and report.passed:
            self.tests.add(test)


def unwritten(*given: Any, **named: Any) -> Any:
    raise NotImplementedError


def try_classes(plan: PlannedPhase, module: ModuleType, classes: Mapping[str, type]) -> list[str]:
    """Replace a phase's classes with shipped ones; return a line for each task that a shipped class passes.

    Only tasks that fail without the phase's class are counted. The phase's own classes must pass these tasks;
    otherwise, a line says so.
    """
    methods, all_tasks = methods_of(plan), {task.number for task in plan.tasks}
    own: dict[str, type] = {owner: getattr(module, owner) for owner in methods}
    needed = dict.fromkeys(methods, all_tasks)

    def act(candidate: str) -> list[str]:
        owner, _, name = candidate.partition(": ")
        for other, kind in own.items():
            setattr(module, other, kind)  # undoes the previous candidate's replacement
        if owner:
            nothing = type(owner, (own[owner],), {"__init__": unwritten})
            setattr(module, owner, nothing if name == "-" else classes[name])
        passed = Passed(plan, needed[owner])
        pytest.main([plan.folder, "-q", "-p", "no:cacheprovider", "--tb=no"], plugins=[passed])
        answered = [task for task in plan.tasks if task.number in needed[owner] and passed.tests >= set(task.tests)]
        return [f"{plan.number}.{task.number} {owner}: {name}" for task in answered]

    def tasks_with(candidates: list[str]) -> set[str]:
        return {line.removeprefix("! ") for line in in_children(candidates, act, is_guarded=False)}

    without = tasks_with([f"{owner}: -" for owner in methods])
    needed = {
        owner: {one for one in all_tasks if f"{plan.number}.{one} {owner}: -" not in without} for owner in methods
    }
    lost = {f"no task needs {owner}" for owner in methods if not needed[owner]}
    needed[""] = set().union(*needed.values())
    lost |= {f"{plan.number}.{one} : " for one in needed[""]} - tasks_with([": "] if methods else [])
    candidates = [
        f"{owner}: {name}"
        for owner, wanted in methods.items()
        for name, kind in classes.items()
        if all(hasattr(kind, method) for method in wanted) and not getattr(kind, "_is_protocol", False)
    ]
    print(f"phase {plan.number}: classes tried: {', '.join(candidates) or 'none'}")
    answered = [f"! {line}" for line in sorted(tasks_with(candidates))]
    return [*answered, *(f"not recognised: {line}" for line in sorted(lost))]


def place_of(task: str) -> tuple[Any, str]:
    number, _, name = task.partition(" ")
    owner, _, inner = name.rpartition(".")
    module = import_module(f"solutions.{module_name(int(number))}")
    return (getattr(module, owner) if owner else module), inner


def function_of(task: str) -> Function:
    found: Function = getattr(*place_of(task))
    return found


def take_away(task: str) -> None:
    """Make a function of the reference raise an error, because the code under test must not use it."""
    setattr(*place_of(task), unwritten)


def main(numbers: Container[int]) -> None:
    sys.setrecursionlimit(10_000)  # `deepcopy` follows the links of free blocks
    os.environ["LAB_IMPL"] = "solution"
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked process would wait forever for threads that exist only in its parent
    # must come after the variable is set, because torch reads it on import
    from mini_vllm_labs.grading.plays.device_tensors import DeviceTensor

    StrictQueue.__deepcopy__ = copy_of_queue  # type: ignore[attr-defined]
    DeviceTensor.__deepcopy__ = copy_on_host  # type: ignore[method-assign]
    calls: dict[str, list[Call]] = {}
    parameters: dict[str, list[str]] = {}
    functions, classes = shipped()
    gc.freeze()  # every pytest run ends with a garbage collection, which would traverse everything that was imported
    found: list[str] = []
    for plan in load_whole_plan():
        if plan.number not in numbers:
            continue
        module = import_module(f"solutions.{module_name(plan.number)}")
        for name, kept in calls_of_reference(plan, module).items():
            task = f"{plan.number} {name}"
            calls[task] = kept
            parameters[task] = list(inspect.signature(eval(f"lambda {plan.names[name][1:-1]}: 0")).parameters)
            # This is a control: a function that goes undetected in its own calls would not be detected anywhere.
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
