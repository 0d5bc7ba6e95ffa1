"""A worker that collects a phase's graded tests before the learner saves, so that the result comes sooner."""

from threading import Lock

from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.worker import GradingWorker

PYTEST = ["-m", "pytest", "-q", "-s", "--tb=line", "-p", "mini_vllm_labs.grading.plugin"]
# the worker has a separate fault handler, and does not have a terminal
OFF = ["cacheprovider", "faulthandler", "debugging"]


def worker_for(phase: PlannedPhase) -> GradingWorker:
    """Start a worker that collects the tests of a phase and then waits for an order."""
    return GradingWorker([*PYTEST, *(option for name in OFF for option in ("-p", f"no:{name}")), *phase.test_files])


class SpareWorker:
    """Provides a waiting worker, and starts the next one when it is taken. The waiting worker has not imported the
    learner's file.

    Each worker grades one version of the file. `close` stops the waiting worker.
    """

    def __init__(self) -> None:
        self.phases = {phase.number: phase for phase in load_whole_plan()}
        self._waiting: tuple[int, GradingWorker] | None = None
        self._lock = Lock()

    @property
    def waiting_pid(self) -> int | None:
        """The process id of the waiting worker, or None."""
        return self._waiting and self._waiting[1].pid

    def take(self, phase: PlannedPhase) -> tuple[GradingWorker, bool]:
        """Return a worker for a phase, and whether it was waiting."""
        with self._lock:
            number, worker = self._waiting or (0, None)
            if worker is not None and number == phase.number and worker.is_running:
                self._waiting = None
                return worker, True
        return worker_for(phase), False

    def prepare(self, number: int) -> None:
        """Start a worker for a phase, unless one is already waiting."""
        with self._lock:
            if self._waiting is not None and self._waiting[0] == number and self._waiting[1].is_running:
                return
            self._end()
            self._waiting = number, worker_for(self.phases[number])

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._waiting is not None:
            self._waiting[1].close()
            self._waiting = None
