"""Grades a class on a Dask cluster: this process reads the files; workers with a working jail do the grading."""

import os
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from queue import LifoQueue
from typing import Any

from mini_vllm_labs.classroom.judge.class_run import GraderError, GradingProcess, RecordedResult, task_of
from mini_vllm_labs.classroom.judge.cluster_worker import course_digest
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import HandedIn
from mini_vllm_labs.runs.dask_client import dask_client
from mini_vllm_labs.runs.sandbox.channel import Message

LEAST_AT_ONCE = 16  # tells an autoscaling cluster that there is work to do
POLL_SECONDS = 2.0


class ClusterError(ValueError):
    """The cluster cannot continue; finished results are in the record."""


class ClusterGrader:
    """Grades submissions on the cluster whose scheduler is at `address`; safe to call from several threads.

    Dask sends a submission to a different worker if its worker dies. A worker that refuses work gets no more work in
    this run; `on_refusal` receives its address and reason. Raises `ValueError` like `dask_client`.
    """

    def __init__(self, address: str, settings: JudgeSettings, on_refusal: Callable[[str], None]) -> None:
        self._client = dask_client(address)
        self._address = address
        self._settings = settings
        self._on_refusal = on_refusal
        self._course = course_digest()
        self._refused: dict[str, str] = {}
        self._lock = threading.Lock()
        # The most recently freed reader is used first, so that only as many readers start as are busy at the same time.
        # Readers never load a learner's code.
        self._readers = [GradingProcess(replace(settings, jailed=False)) for _ in range(os.cpu_count() or 1)]
        self._idle: LifoQueue[GradingProcess] = LifoQueue()
        for reader in self._readers:
            self._idle.put(reader)

    def num_at_once(self) -> int:
        """Return how many submissions to send at once: two for each thread in the cluster."""
        threads: dict[str, int] = self._client.nthreads()
        return max(LEAST_AT_ONCE, 2 * sum(threads.values()))

    def grade(self, handed_in: HandedIn, known: RecordedResult | None = None) -> RecordedResult:
        """Read a submission here and send it for grading; return the known result if the files are unchanged.

        Raises `GraderError` if several workers die while grading it, and `ClusterError` if no worker can grade.
        """
        reader = self._idle.get()
        try:
            task = reader.answer(task_of(handed_in, known) | {"only_read": True})
        finally:
            self._idle.put(reader)
        if task is None:
            assert known is not None
            return known
        answer = None
        while answer is None:
            answer = self._graded(task)
        if "failed" in answer:
            raise GraderError(answer["failed"])
        result: RecordedResult = answer["result"]
        return result

    def end(self) -> None:
        """Forget all submissions that have not been graded yet. Workers finish the submissions that they have already
        started."""
        for reader in self._readers:
            reader.end()
        self._client.close()

    def _graded(self, task: Message) -> dict[str, Any] | None:
        """Return a worker's answer, or None if the worker refused or if all named workers have disappeared."""
        from distributed import CancelledError, KilledWorker

        able = self._able()
        try:
            arguments = (asdict(self._settings), self._course, task)
            future = self._client.submit(call_on_worker(), *arguments, workers=able, pure=False)
            while True:
                try:
                    answer: dict[str, Any] = future.result(timeout=POLL_SECONDS)
                    break
                except TimeoutError:
                    if able and not set(able) & set(self._client.nthreads()):
                        future.cancel()
                        return None
        except KilledWorker as error:
            raise GraderError(
                f"the submission could not be graded: {1 + error.allowed_failures} workers died while grading it"
            ) from None
        except (Exception, CancelledError) as error:
            raise ClusterError(f"the cluster at {self._address} failed: {error or type(error).__name__}") from error
        if "refused" not in answer:
            return answer
        with self._lock:
            if answer["worker"] not in self._refused:
                self._refused[answer["worker"]] = answer["refused"]
                self._on_refusal(f"{answer['worker']} grades nothing: {answer['refused']}")
        return None

    def _able(self) -> list[str] | None:
        """Return the workers that may grade; None means all. Raises `ClusterError` if every worker has refused."""
        if not self._refused:
            return None
        present = self._client.nthreads()
        able = [address for address in present if address not in self._refused]
        if present and not able:
            raise ClusterError(f"no worker at {self._address} can grade: {next(iter(self._refused.values()))}")
        return able or None


def call_on_worker() -> Callable[[dict[str, Any], str, Message], dict[str, Any]]:
    """Return the function that is sent to workers.

    Because the function is local, it is pickled by value; its arguments are plain values.

    So even a worker without the course can receive the function, and then refuse the work. Dask would close a worker
    that cannot unpickle what it receives.
    """

    def grade(settings: dict[str, Any], course: str, task: Message) -> dict[str, Any]:
        from distributed import get_worker

        address: str = get_worker().address
        try:
            from mini_vllm_labs.classroom.judge.cluster_worker import grade_here
        except ImportError as error:
            return {"worker": address, "refused": f"it does not have this course: {error}"}
        return {"worker": address, **grade_here(settings, course, task)}

    return grade
