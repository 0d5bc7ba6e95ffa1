"""Runs the graded tests on one implementation after another, inside a copy of the course.

Collects a phase's tests once, then forks for each implementation, so that each child imports a fresh module in a warm
pytest session. Reads one JSON job per line and writes one JSON verdict per line. `harness.py` starts this worker.
"""

import contextlib
import gc
import json
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.main import pytest_runtestloop

from tests.mutants.catalog import module_name
from tests.mutants.verdict import Verdict, shortened

MARK = "_subject_under_test"
# mistakes next to each other in a catalogue break the same function, so the same test catches them
NUM_TRIED_FIRST = 20
WALL_SECONDS = 120
MEMORY_BYTES = 4 * 2**30


def main() -> None:
    """Serve jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output printed from here on must not get mixed up with the verdicts
    servers: dict[int, PhaseServer] = {}
    caught_by: list[str] = []  # the most recent come first
    for line in sys.stdin:
        job = json.loads(line)
        phase = int(job["phase"])
        if phase not in servers:
            servers[phase] = PhaseServer(phase)
        limits = {"stop_at_first": job["stop_at_first"], "cpu_seconds": job["cpu_seconds"]}
        verdict = examine(servers[phase], job["text"], tried_first=caught_by[:NUM_TRIED_FIRST], **limits)
        if job["stop_at_first"] and verdict.failed:
            caught_by = list(dict.fromkeys([verdict.failed[0], *caught_by]))
        print(json.dumps(asdict(verdict)), file=answers, flush=True)


class PhaseServer:
    """A process that has collected the graded tests of a phase, and forks for each run of them."""

    def __init__(self, phase: int) -> None:
        self.phase = phase
        theirs, self._jobs = os.pipe()
        self._statuses, ours = os.pipe()
        if os.fork() == 0:
            os.close(self._jobs)
            os.close(self._statuses)
            options = ["-q", "-s", "--tb=short", "-p", "no:cacheprovider"]
            pytest.main([f"labs/{module_name(phase)}", *options], plugins=[Forking(theirs, ours)])
            os._exit(0)
        os.close(theirs)
        os.close(ours)

    def run(self, run: "Run") -> int:
        """Run the tests in a new process; return its exit status (negative for a signal)."""
        os.write(self._jobs, json.dumps(asdict(run)).encode() + b"\n")
        with os.fdopen(os.dup(self._statuses), buffering=1) as statuses:
            return int(statuses.readline() or 99)


@dataclass(frozen=True)
class Run:
    """Settings of one test run: where it writes, where it stops, and which tests come first."""

    solution: str
    events: str
    output: str
    stop_at_first: bool
    cpu_seconds: int
    tried_first: Sequence[str]


class Forking:
    """A pytest plugin that serves runs instead of running the tests once."""

    def __init__(self, jobs: int, statuses: int) -> None:
        self._jobs, self._statuses = jobs, statuses

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.collect()
        gc.freeze()  # otherwise each child's garbage collector would copy everything that was imported
        with os.fdopen(self._jobs, encoding="utf-8") as jobs:
            for line in jobs:
                run = Run(**json.loads(line))
                child = os.fork()
                if child == 0:
                    _run_tests(session, run)
                os.write(self._statuses, f"{_wait(child)}\n".encode())
        return True


def examine(
    server: PhaseServer, text: str, *, stop_at_first: bool, cpu_seconds: int, tried_first: Sequence[str] = ()
) -> Verdict:
    """Replace the phase's solution with `text`, and run the graded tests on it in a new child process."""
    copy, name = Path.cwd(), module_name(server.phase)
    solution = copy / "solutions" / f"{name}.py"
    mark = secrets.token_hex(8)
    original = solution.read_text(encoding="utf-8")
    solution.write_text(f'{text}\n{MARK} = "{mark}"\n', encoding="utf-8")
    events, output = copy / "events.jsonl", copy / "output.txt"
    events.write_text("", encoding="utf-8")
    run = Run(f"solutions.{name}", str(events), str(output), stop_at_first, cpu_seconds, tried_first)
    status = server.run(run)
    solution.write_text(original, encoding="utf-8")
    printed = output.read_text(encoding="utf-8", errors="replace")[-600:]
    happened = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return _judge(happened, status, solution, mark, printed)


def _run_tests(session: pytest.Session, run: Run) -> NoReturn:
    code: int = 99
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        file = os.open(run.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        session.config.option.maxfail = 1 if run.stop_at_first else 0
        ranks = {test: rank for rank, test in enumerate(run.tried_first)}
        session.items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[2], NUM_TRIED_FIRST))
        witness = Witness(Path(run.events), run.solution, run.cpu_seconds)
        session.config.pluginmanager.register(witness)
        try:
            with contextlib.suppress(session.Failed):  # by `maxfail`
                pytest_runtestloop(session)
            code = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
        except (KeyboardInterrupt, pytest.exit.Exception, session.Interrupted):  # the learner's code ends the test run
            code = pytest.ExitCode.INTERRUPTED
        witness.write("finished", int(code))
    finally:
        os._exit(code)


def _wait(child: int) -> int:
    """Wait for the child, kill its remaining processes, and return its exit status (negative for a signal)."""
    deadline = time.monotonic() + WALL_SECONDS
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGXCPU
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def _judge(events: list[tuple[str, Any]], status: int, solution: Path, mark: str, printed: str) -> Verdict:
    loaded = [what for event, what in events if event == "loaded"]
    if not loaded:
        return Verdict("not run", detail=f"the phase was never imported (exit status {status}): {printed}")
    if loaded[0]["mark"] != mark or Path(loaded[0]["file"]).resolve() != solution.resolve():
        return Verdict("not run", detail=f"the tests met another module: {loaded[0]}")
    num_passed = sum(event == "passed" for event, _ in events)
    failures = [what for event, what in events if event == "failed"]
    failed, detail = [name for name, _, _ in failures], failures[0][1] if failures else ""
    running = [what for event, what in events if event == "start"][-1:]
    exit_codes = [what for event, what in events if event == "finished"]
    match exit_codes:
        case [0]:
            return Verdict("passed", num_passed)
        case [1]:
            answers = dict(answer for _, _, answer in failures)
            reports = {test: text for _, text, (test, _) in failures}
            return Verdict("failed", num_passed, failed, detail, answers, reports)
        case [code]:
            return Verdict("not run", num_passed, failed, f"pytest ended with {pytest.ExitCode(code).name}: {printed}")
    if status == -signal.SIGXCPU:
        return Verdict("endless", num_passed, running + failed)
    return Verdict("died", num_passed, running + failed, f"exit status {status}")


class Witness:
    """A pytest plugin that logs each event immediately, so that even a killed run leaves a log.

    It writes one JSON line per event: the code that was loaded, and each test's start, pass or failure. Also ends the
    process if a test takes more than `cpu_seconds`.
    """

    def __init__(self, path: Path, module_name: str, cpu_seconds: int) -> None:
        self._path = path
        self._module_name = module_name
        self._cpu_seconds = cpu_seconds
        self._loaded = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + self._cpu_seconds, hard))
        self.write("start", nodeid.partition("::")[2])

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self) -> None:
        """Record the phase's file and its mark, after the fixtures have imported it."""
        module = sys.modules.get(self._module_name)
        if module is not None and not self._loaded:
            self._loaded = True
            self.write("loaded", {"file": module.__file__, "mark": getattr(module, MARK, None)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            answer = [report.nodeid.split("/", 2)[2], getattr(report, "answer", "")]
            self.write("failed", [report.nodeid.partition("::")[2], shortened(str(report.longrepr)), answer])
        elif report.when == "call" and report.passed:
            self.write("passed", None)

    def write(self, event: str, what: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([event, what]) + "\n")


if __name__ == "__main__":
    main()
