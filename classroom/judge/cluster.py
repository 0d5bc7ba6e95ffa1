"""A Dask cluster in place of this machine's processes: the same judge, on workers that passed the jail's own test.

A worker is a machine with a checkout of the same state. Submissions and the seed travel to it, results travel back.
"""

import contextlib
import hashlib
import threading
import time
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future

from classroom.judge.grading_process import GRACE_SECONDS, NUM_TRIES, GraderError, GradingProcess
from classroom.judge.jail import JailError, find_jail
from classroom.judge.probe import require_jail
from classroom.judge.record import Result
from classroom.judge.settings import Settings
from classroom.judge.submission import HandedIn
from classroom.worker.text import one_line
from mini_vllm.assembly.lineup import CHECKOUT

CONNECT_SECONDS = 20.0
POLL_SECONDS = 5.0
WHAT_GRADES = ("classroom", "course", "mini_vllm", "solutions")


class ClusterError(ValueError):
    """There is no cluster, or one of its workers would not grade as this machine does."""


class Cluster:
    """The workers behind a scheduler's address, all of them fit to grade."""

    def __init__(self, address: str, settings: Settings) -> None:
        """Connect, and test every worker. Raises `ClusterError` for the first that is unfit."""
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"--dask {address}: no scheduler answers there: {error}") from None
        self._settings = settings
        self._threads: dict[str, int] = self._client.nthreads()
        try:
            if not self._threads:
                raise ClusterError(f"--dask {address}: the cluster has no workers; `dask worker {address}` starts one")
            self._require_fit()
        except BaseException:
            self.close()
            raise

    def graders(self) -> list["ClusterGrader"]:
        """Return a grader for every thread of every worker. A worker that joins later is untested, so it gets none."""
        reader, workers = SharedReader(self._settings), list(self._threads)
        return [
            ClusterGrader(self._client, workers, self._settings, reader) for _ in range(sum(self._threads.values()))
        ]

    def close(self) -> None:
        """Leave the cluster; its workers stay."""
        self._client.close()

    def _require_fit(self) -> None:
        answers = self._client.run(
            why_unfit, code_digest(), self._settings.jailed, workers=list(self._threads), on_error="return"
        )
        for worker, answer in answers.items():
            reason = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else answer
            if reason:
                raise ClusterError(f"worker {worker} cannot grade: {one_line(reason)}")


class SharedReader:
    """One process of this machine that reads for all graders: a cluster may have hundreds of them."""

    def __init__(self, settings: Settings) -> None:
        self._process = GradingProcess(settings)
        self._lock = threading.Lock()

    def read(self, handed_in: HandedIn) -> dict[str, Any]:
        """Read a submission; return it as JSON, with `error` if it cannot be read."""
        with self._lock:
            return self._process.read(handed_in)

    def end(self) -> None:
        """End the process, in the middle of a submission if need be."""
        self._process.end()


class ClusterGrader:
    """Sends submissions to the cluster, one at a time. They are read here."""

    def __init__(self, client: Client, workers: list[str], settings: Settings, reader: SharedReader) -> None:
        self._client = client
        self._workers = workers
        self._settings = settings
        self._reader = reader
        self._future: Future[Result] | None = None
        self._is_ended = False

    def read(self, handed_in: HandedIn) -> dict[str, Any]:
        """Read a submission; return it as JSON, with `error` if it cannot be read."""
        return self._reader.read(handed_in)

    def grade(self, submission: dict[str, Any]) -> Result:
        """Have a submission graded that has been read. Raises `GraderError` if no worker could."""
        if self._is_ended:
            raise GraderError("the class is no longer graded")
        self._future = self._client.submit(
            grade_there, self._settings.as_json(), submission, workers=self._workers, pure=False
        )
        try:
            return self._wait_for(self._future)
        finally:
            self._future = None

    def end(self) -> None:
        """Give up what is being graded."""
        self._is_ended = True
        self._reader.end()
        if self._future is not None:
            with contextlib.suppress(Exception):
                self._future.cancel()

    def _wait_for(self, future: Future[Result]) -> Result:
        deadline = time.monotonic() + NUM_TRIES * (60 * self._settings.minutes + 2 * GRACE_SECONDS)
        while time.monotonic() < deadline:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                if future.done():  # it is the worker's own error, not the end of the wait
                    break
                if not set(self._workers) & set(self._client.nthreads()):
                    raise GraderError("it could not be graded: the cluster has lost its workers") from None
            except GraderError:
                raise
            except (Exception, CancelledError) as error:
                reason = one_line(f"{type(error).__name__}: {error}")
                raise GraderError(f"it could not be graded: {reason}") from None
        raise GraderError("it could not be graded: the cluster gave no answer")


def grade_there(settings: dict[str, Any], submission: dict[str, Any]) -> Result:
    """Grade in a process of the worker's own. Runs on a worker."""
    process = GradingProcess(Settings.from_json(settings))
    try:
        return process.grade(submission)
    finally:
        process.end()


def why_unfit(code: str, jailed: bool) -> str:
    """Return why this machine must not grade; empty if it may. Runs on a worker."""
    if code_digest() != code:
        return "its checkout is not in the state of this one"
    try:
        if jailed:
            require_jail(find_jail())
    except JailError as error:
        return str(error)
    return ""


def code_digest() -> str:
    """Return the SHA-256 of all that grades: the judge, the course, the engine and the solutions."""
    digest = hashlib.sha256()
    for package in WHAT_GRADES:
        for path in sorted((CHECKOUT / package).rglob("*.py")):
            digest.update(str(path.relative_to(CHECKOUT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
