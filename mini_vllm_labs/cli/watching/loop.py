"""The finishes for learners who write code: verdicts on saves, hints, and approaches to passed tasks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

from rich.console import Console

from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm_labs.cli.hint import show_hint
from mini_vllm_labs.cli.watching import screen
from mini_vllm_labs.cli.watching.screen import Read
from mini_vllm_labs.cli.watching.session import FINISHES, TaskNumber, WatchSession
from mini_vllm_labs.cli.watching.terminal import Watched
from mini_vllm_labs.fresh.shown_run import ShownRun, observed_run, shown_run
from mini_vllm_labs.grading.approaches import Approach, unsealed
from mini_vllm_labs.grading.grader import grade_tests, phases_of_stack, stack_check
from mini_vllm_labs.grading.results import EngineCheck, PhaseGrade
from mini_vllm_labs.grading.spare_worker import SpareWorker
from mini_vllm_labs.runs.starter_status import written_lineup

CHANGED = "was changed while it was graded. Grade again."
NEXT = {"scheduler": "mini-vllm watch --finish engine", "engine": "mini-vllm bench throughput --lineup starter"}


class Watch(Watched):
    """A session that covers some phases. `name` is the name of the learner's finish, or `run` if the phases were chosen
    some other way."""

    keys = "h hint  n next task  l list  o engine step  a other ways  s share  q quit"
    at_the_end = "This is your engine"

    def __init__(self, console: Console, read: Read | None, name: str, phases: Sequence[int]) -> None:
        self.session = WatchSession(phases)
        self.phases = {CHECKOUT / phase.starter: number for number, phase in self.session.phases.items()}
        super().__init__(console, read, name, list(self.phases))
        self.after = f"next: {NEXT.get(name, 'mini-vllm grade')}"
        self.passed: TaskNumber | None = None
        self.approaches: list[Approach] = []
        self.num_unfolded = 0
        self.spare = SpareWorker()

    def begin(self) -> None:
        if self.session.current is None:
            self.check_stack(max(self.session.phases))
        self.grade_next()

    def close(self) -> None:
        super().close()
        self.spare.close()

    def actions(self) -> dict[str, Callable[[], None]]:
        own = {"h": self.hint, "n": self.skip, "l": lambda: screen.show_list(self.console, self.session)}
        return super().actions() | own | {"a": self.unfold}

    def engine(self, *, real: bool) -> ShownRun:
        if real and self.name in FINISHES and not self.session.unfinished():
            return shown_run(parse_lineup(",".join(f"starter:{phase}" for phase in self.session.phases)))
        lineup = written_lineup()
        if lineup is None:
            return observed_run()
        return shown_run(lineup if real else replace(lineup, runner="absent"))

    # Verdicts

    def saved(self, path: Path) -> None:
        self.jobs.drop_verdicts()
        self.run = None
        self.session.saved(self.phases[path])
        self.grade_next()

    def grade_next(self, *, after_a_pass: bool = False) -> None:
        """Grade the current task; only name it if its file is untouched, or if it is unwritten after a pass."""
        if (tasks := self.session.to_grade()) and not (after_a_pass and self.session.is_unwritten(tasks[0])):
            self.grade(tasks)
        elif (task := self.session.current) is not None:
            self.spare.prepare(task.phase)
            screen.show_unwritten(self.console, self.session.phases[task.phase], task.number)
            self.show_keys()

    def grade(self, tasks: Sequence[TaskNumber]) -> None:
        phase = self.session.only(tasks)

        def work(stop: Event) -> PhaseGrade:
            try:
                return grade_tests(phase, stop, spare=self.spare)
            except OSError as error:  # the file has since been deleted
                return PhaseGrade(phase, "", [], f"{phase.starter} cannot be read: {error.strerror}.")
            finally:
                self.spare.prepare(phase.number)

        self.jobs.add(work, self.show_verdict, is_verdict=True)

    def show_verdict(self, grade: PhaseGrade, seconds: float) -> None:
        """Print a verdict; then grade the earlier tasks in a changed file, or the next task."""
        if grade.error.endswith(CHANGED):
            self.grade_next()
            return
        graded = [TaskNumber(grade.plan.number, task.plan.number) for task in grade.tasks]
        is_new = self.session.current in graded
        again = self.session.take(grade)
        screen.show_verdict(self.console, grade, seconds)
        if grade.is_complete and is_new:
            self.open_approaches(graded[-1])
        if again:
            self.say(f"Your file has changed since {', '.join(map(str, again))} passed: once more.", "dim")
            self.grade(again)
            return
        if not grade.is_complete and not is_new:
            self.say("It passed before, and fails now.", "red")
        self.say(f"\n{screen.tick_line(self.console, self.session)}")
        if grade.is_complete and not self.session.unfinished(grade.plan.number):
            self.check_stack(grade.plan.number)
        if grade.is_complete and self.session.current is not None:
            self.grade_next(after_a_pass=True)
        else:
            self.show_keys()

    def check_stack(self, phase: int) -> None:
        """Run the learner's phases up to this one in one engine; show the end screen if nothing else is left."""

        def show(check: EngineCheck, seconds: float) -> None:
            is_in_engines = bool(phases_of_stack(phase))
            if is_in_engines:
                screen.show_stack(self.console, phase, check, seconds)
            if (check.status == "passed" or not is_in_engines) and not self.session.unfinished():
                self.ask(self.show_end, real=True)

        self.jobs.add(lambda stop: stack_check(phase, stop), show, is_verdict=True)

    # Keys

    def hint(self) -> None:
        try:
            show_hint(self.console, str(self.session.current or self.session.tasks[-1]))
        except (ValueError, OSError) as error:
            self.say(str(error))

    def skip(self) -> None:
        self.jobs.drop_verdicts()
        self.session.skip()
        self.grade_next()

    def open_approaches(self, task: TaskNumber) -> None:
        """Remember other approaches to the task just passed, for key `a`, and print their number."""
        self.passed, self.approaches, self.num_unfolded = task, [], 0
        try:
            self.approaches = unsealed(str(task))
        except ValueError as error:
            self.say(str(error))
        if self.approaches:
            how = "a" if self.read else f"mini-vllm approaches {task}"
            self.say(f"  {how}: {len(self.approaches)} other ways to write it, and what each costs", "dim")

    def unfold(self) -> None:
        """Print the next approach to the most recently passed task; after the last approach, start over."""
        if self.approaches:
            screen.show_approach(self.console, str(self.passed), self.approaches, self.num_unfolded)
            self.num_unfolded = (self.num_unfolded + 1) % len(self.approaches)
        elif self.passed:
            self.say(f"The course has no other ways to write {self.passed}.")
        else:
            self.say("Nothing has passed since you began. mini-vllm approaches 1.1 grades a task, and shows them then.")
