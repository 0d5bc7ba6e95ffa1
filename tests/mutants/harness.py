"""Workers that share a queue of implementations; each worker has its own copy of the course."""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalog import PHASES, ROOT, Subject
from tests.mutants.verdict import Verdict

COPIED = (
    "conftest.py",
    "pyproject.toml",
    "mini_vllm",
    "mini_vllm_labs",
    "labs",
    "solutions",
    "tests/__init__.py",
    "tests/mutants",
)
CPU_SECONDS = 8  # for one test: a test that takes longer will never end
FAIR_CPU_SECONDS = 30  # a correct answer may be slow: it may compute attention token by token, on a busy machine
NOT_COPIED = shutil.ignore_patterns("embedded_model", "*.gz", "*.svg")


def phases_and_jobs(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a command's parser, with the options `phases` (None for all) and `jobs` (the number of parallel
    processes)."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--phase", type=int, action="append", choices=PHASES, dest="phases", help="only this phase")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once (default: all cores)")
    return parser


class Worker:
    """One process that runs graded tests in a copy of the course."""

    def __init__(self, copy: Path, hash_seed: int) -> None:
        self._copy = copy
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=NOT_COPIED)
            else:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {
            "LAB_IMPL": "solution",
            "PYTHONPATH": str(copy),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": str(hash_seed),
            "OMP_NUM_THREADS": "1",
        }
        self._log = (copy / "worker.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.worker"],
            cwd=copy,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def examine(self, subject: Subject, *, stop_at_first: bool, cpu_seconds: int) -> Verdict:
        """Run the graded tests of the subject's phase on the subject."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"phase": subject.phase, "text": subject.text, "stop_at_first": stop_at_first}
        job["cpu_seconds"] = cpu_seconds
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            return Verdict("not run", detail=f"the worker ended: {(self._copy / 'worker.log').read_text()[-600:]}")
        return Verdict(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.communicate()
        self._log.close()


@contextlib.contextmanager
def harness(num_workers: int, hash_seed: int = 0) -> Iterator["Harness"]:
    """Yield a harness; its copies and processes are removed at the end of the `with` block."""
    with tempfile.TemporaryDirectory(prefix="mini_vllm_mutants_") as folder:
        workers = [Worker(Path(folder).resolve() / str(index), hash_seed) for index in range(num_workers)]
        try:
            yield Harness(workers)
        finally:
            for worker in workers:
                worker.close()


class Harness:
    """Several workers that share the work."""

    def __init__(self, workers: list[Worker]) -> None:
        self._num_workers = len(workers)
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._idle.put(worker)

    def examine(
        self, subjects: Iterable[Subject], *, stop_at_first: bool, cpu_seconds: int = CPU_SECONDS
    ) -> Iterator[Verdict]:
        """Yield the verdicts in the order of the subjects, each as soon as it is ready."""

        def one(subject: Subject) -> Verdict:
            worker = self._idle.get()
            try:
                limit = cpu_seconds if subject.kind == "mutant" else max(cpu_seconds, FAIR_CPU_SECONDS)
                return worker.examine(subject, stop_at_first=stop_at_first, cpu_seconds=limit)
            finally:
                self._idle.put(worker)

        with ThreadPoolExecutor(self._num_workers) as pool:
            yield from pool.map(one, subjects)
