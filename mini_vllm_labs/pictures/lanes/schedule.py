"""Computes simulated times for each task of a run, in the order of the run's records."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mini_vllm_labs.runs.traces.drafts import verdicts_of
from mini_vllm_labs.runs.traces.recording import Recording

PLAN, APPLY, TEXT, COMPUTE = "plan", "apply", "text", "compute"
SHARES = {PLAN: 0.5, APPLY: 0.25, TEXT: 0.25}  # how the engine's time in a step is divided


@dataclass(frozen=True)
class Task:
    """A task of the engine or the runner for one step, from `start` to `end` in ms.

    `in_vain` means that no request in the step needs the task's result.
    """

    kind: str
    step: int
    start: float
    end: float
    in_vain: bool = False

    @property
    def text(self) -> str:
        return f"{self.kind} {self.step} {self.start:g}-{self.end:g}{' in vain' if self.in_vain else ''}"


@dataclass(frozen=True)
class Schedule:
    """The tasks of the engine and of the runner, each in time order."""

    engine: Sequence[Task]
    runner: Sequence[Task]
    num_steps: int

    @property
    def total(self) -> float:
        return max((task.end for task in (*self.engine, *self.runner)), default=0.0)

    @property
    def idle(self) -> list[tuple[float, float]]:
        """The periods in which the runner has nothing to compute, as (start, end) in ms."""
        edges = [(0.0, 0.0), *((task.start, task.end) for task in self.runner), (self.total, self.total)]
        gaps = [(before[1], after[0]) for before, after in pairwise(edges)]
        return [(start, end) for start, end in gaps if end - start > 1e-9]  # sums of times contain rounding errors

    @property
    def idle_share(self) -> float:
        """The fraction (0 to 1) of the total time during which the runner is idle."""
        return sum(end - start for start, end in self.idle) / self.total if self.total else 0.0

    @property
    def in_flight(self) -> list[tuple[int, float, float]]:
        """Each computed step, with the end of its planning and the end of its update, in ms."""
        planned = {task.step: task.end for task in self.engine if task.kind == PLAN}
        applied = {task.step: task.end for task in self.engine if task.kind == APPLY}
        return [(task.step, planned[task.step], applied.get(task.step, self.total)) for task in self.runner]

    @property
    def most_in_flight(self) -> int:
        """The maximum number of steps that are planned but not yet applied at the same time."""
        return max((sum(s <= start < e for _, s, e in self.in_flight) for _, start, _ in self.in_flight), default=0)


def schedule_of(recording: Recording, plan_ms: float, compute_ms: float) -> Schedule:
    """Return the schedule of a run in which each step takes the engine `plan_ms` and the runner `compute_ms`.

    Each record is one iteration of the engine, which plans that step, then waits for the step `update_of`, applies it
    and writes its text. The runner computes one step at a time.
    """
    engine, runner = list[Task](), list[Task]()
    now, done = 0.0, dict[int, float]()
    for record, verdicts in zip(recording.steps, verdicts_of(recording.steps), strict=True):
        step = record["step"]
        now = add(engine, PLAN, step, now, plan_ms)
        if record["scheduled"]:
            free = runner[-1].end if runner else 0.0
            in_vain = all(verdict.in_vain for verdict in verdicts)
            runner.append(Task(COMPUTE, step, max(now, free), max(now, free) + compute_ms, in_vain))
            done[step] = runner[-1].end
        applied = record["update_of"]
        if applied is not None:
            now = max(now, done.get(applied, now))
            if applied in done:
                now = add(engine, TEXT, applied, add(engine, APPLY, applied, now, plan_ms), plan_ms)
    return Schedule(engine, runner, len(recording.steps))


def add(tasks: list[Task], kind: str, step: int, start: float, plan_ms: float) -> float:
    tasks.append(Task(kind, step, start, start + SHARES[kind] * plan_ms))
    return tasks[-1].end
