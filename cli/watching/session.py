"""Where a learner stands: the tasks of a finish, which have passed, which is current, and what to grade next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cli.watching.ticks import Ticks
from course.grading.plan import PlannedPhase, load_whole_plan
from course.grading.results import PhaseGrade
from course.starter_status import is_begun
from mini_vllm.assembly.lineup import CHECKOUT


@dataclass(frozen=True)
class Task:
    """One task of the plan."""

    phase: PlannedPhase
    number: int

    @property
    def name(self) -> str:
        return f"{self.phase.number}.{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def only(tasks: Sequence[Task]) -> PlannedPhase:
    """Return the phase of some tasks with these tasks alone."""
    phase, numbers = tasks[0].phase, {task.number for task in tasks}
    return replace(phase, tasks=[task for task in phase.tasks if task.number in numbers])


class Session:
    """The tasks of some phases in their order. `current` is None once all of them have passed."""

    def __init__(self, phases: Sequence[int]) -> None:
        self.phases = [phase for phase in load_whole_plan() if phase.number in phases]
        self.tasks = [Task(phase, task.number) for phase in self.phases for task in phase.tasks]
        self.ticks = Ticks()
        self.current: Task | None = next(iter(self.unfinished()), None)

    def state(self, task: Task) -> str:
        """Return `passed`, `stale` (it has passed, and the file was changed since then) or `open`."""
        return self.ticks.state(task.phase, task.number)

    def unfinished(self) -> list[Task]:
        return [task for task in self.tasks if self.state(task) != "passed"]

    def paths(self) -> dict[Path, PlannedPhase]:
        return {CHECKOUT / phase.starter: phase for phase in self.phases}

    def saved(self, phase: PlannedPhase) -> None:
        """Turn to a phase that was saved: to its first open task, or to one that has to pass again."""
        if self.current is None or self.current.phase.number != phase.number:
            mine = [task for task in self.unfinished() if task.phase.number == phase.number]
            opened = [task for task in mine if self.state(task) == "open"]
            self.current = next(iter([*opened, *mine]), self.current)

    def skip(self) -> None:
        """Turn to the next task that has not passed, and from the last one to the first."""
        left = self.unfinished()
        if self.current in left:
            left = left[left.index(self.current) + 1 :] + left[: left.index(self.current) + 1]
        self.current = next(iter(left), None)

    def to_grade(self) -> list[Task]:
        """Return the tasks to grade now: the current one; none if its file is untouched, so that nothing can pass."""
        phase = self.current.phase if self.current else None
        is_worth_it = phase and (is_begun(phase.number) or not (CHECKOUT / phase.starter).exists())
        return [self.current] if self.current and is_worth_it else []

    def take(self, grade: PhaseGrade) -> list[Task]:
        """Note the result. Return tasks of the same file that passed before it was changed: they are graded next.

        The first task that fails becomes the current one; if none does, the next one that has not passed.
        """
        self.ticks.take(grade)
        if grade.error:
            return []
        failed = [task.plan.number for task in grade.tasks if task.status != "passed"]
        if failed:
            self.current = Task(self.phase(grade.plan.number), failed[0])
            return []
        mine = [task for task in self.tasks if task.phase.number == grade.plan.number]
        stale = [task for task in mine if self.state(task) == "stale"]
        if not stale:
            after = self.first(lambda task: task.phase.number == grade.plan.number)
            self.current = after or self.first(lambda task: True)
        return stale

    def first(self, wanted: Callable[[Task], bool]) -> Task | None:
        return next((task for task in self.unfinished() if wanted(task)), None)

    def phase(self, number: int) -> PlannedPhase:
        return next(phase for phase in self.phases if phase.number == number)

    def is_whole(self, phase: PlannedPhase) -> bool:
        """Return whether every task of a phase passes on its file as it is."""
        return all(self.state(task) == "passed" for task in self.tasks if task.phase.number == phase.number)
