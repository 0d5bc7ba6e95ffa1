"""The loop of `mini-vllm watch`: keys, saves, and the work that follows from them."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

from rich.console import Console

from cli.hint import show_hint
from cli.share import free_name, page_of, write_page
from cli.watching import screen
from cli.watching.jobs import Jobs
from cli.watching.keyboard import Read
from cli.watching.saves import Saves
from cli.watching.session import Session, Task, only
from cli.watching.ticks import FINISHES
from course.fresh.process import FreshError
from course.fresh.shown_run import ShownRun, observed_run, shown_run
from course.grading.approaches import Approach, unsealed
from course.grading.grader import grade_tests, stack_check
from course.grading.plan import PlannedPhase
from course.grading.results import EngineCheck, PhaseGrade
from course.grading.view import heading
from course.starter_status import written_lineup
from course.terminal.step_table import totals
from course.terminal.step_view import FAINT
from mini_vllm.assembly.lineup import Lineup, parse_lineup

TICK_SECONDS = 0.1
CHANGED = "was changed while it was graded. Grade again."
NEXT = {"scheduler": "mini-vllm watch --finish engine", "engine": "mini-vllm bench throughput --lineup starter"}


class Watch:
    """A session at a terminal, or without one (`read` is None), where verdicts are printed and nothing is asked."""

    def __init__(self, session: Session, console: Console, read: Read | None, finish: str) -> None:
        self.session, self.console, self.read, self.finish = session, console, read, finish
        self.saves, self.jobs = Saves(list(session.paths())), Jobs()
        self.run: ShownRun | None = None
        self.step = 0
        self.passed: Task | None = None
        self.approaches: list[Approach] = []
        self.num_unfolded = 0

    def go(self) -> None:
        """Watch until `q` or Ctrl-C."""
        try:
            if self.session.current is None:
                self.check_stack(self.session.phases[-1])
            self.grade_next()
            while self.handle(self.read(TICK_SECONDS) if self.read else ""):
                self.jobs.poll()
                for path in self.saves.poll(time.monotonic()):
                    self.saved(path)
                if self.read is None:
                    time.sleep(TICK_SECONDS)
        finally:
            self.jobs.close()

    def handle(self, pressed: str) -> bool:
        """Do what the keys ask for; return false for `q`."""
        actions: dict[str, Callable[[], None]] = {
            "h": self.hint,
            "n": self.skip,
            "l": lambda: screen.show_list(self.console, self.session),
            "o": self.show_step,
            "a": self.unfold,
            "s": self.share,
        }
        for key in pressed.lower():
            if key == "q":
                return False
            actions.get(key, self.show_keys)()
        return True

    def show_keys(self) -> None:
        if self.read is not None:
            self.console.print(screen.KEYS, style=FAINT, markup=False)

    # Verdicts

    def saved(self, path: Path) -> None:
        """A starter was saved: what is known of it is out of date."""
        self.jobs.drop_verdicts()
        self.run = None
        self.session.saved(self.session.paths()[path])
        self.grade_next()

    def grade_next(self) -> None:
        """Grade the current task; name it if its file is untouched."""
        if tasks := self.session.to_grade():
            self.grade(tasks)
        elif self.session.current is not None:
            screen.show_unwritten(self.console, self.session.current)
            self.show_keys()

    def grade(self, tasks: list[Task]) -> None:
        phase = only(tasks)

        def work(stop: Event) -> PhaseGrade:
            try:
                return grade_tests(phase, stop)
            except OSError as error:  # the file went away in between
                return PhaseGrade(phase, "", [], f"{phase.starter} cannot be read: {error.strerror}.")

        self.jobs.add(work, self.show_verdict, is_verdict=True)

    def show_verdict(self, grade: PhaseGrade, seconds: float) -> None:
        if grade.error.endswith(CHANGED):
            self.grade_next()
            return
        before = self.session.current
        again = self.session.take(grade)
        screen.show_verdict(self.console, grade, seconds)
        phase = self.session.phase(grade.plan.number)
        if grade.is_complete:
            if before is not None and before.name in named(grade):  # else it was an earlier task, once more
                self.has_passed(before)
            if again:
                names = ", ".join(task.name for task in again)
                self.console.print(f"Your file has changed since {names} passed: once more.", style=FAINT)
                self.grade(again)
                return
            if self.session.is_whole(phase):
                self.check_stack(phase)
        elif before is not None and before not in (self.session.current, None) and before.name not in named(grade):
            self.console.print("It passed before, and fails now.", style="red")
        self.console.print(f"\n{screen.tick_line(self.console, self.session)}", markup=False)
        if grade.is_complete and self.session.current is not None:
            self.grade_next()
        else:
            self.show_keys()

    def has_passed(self, task: Task) -> None:
        """Open the approaches to a task that has just passed, if there are any."""
        self.passed, self.approaches, self.num_unfolded = task, [], 0
        try:
            self.approaches = unsealed(task.name)
        except ValueError as error:
            self.console.print(str(error), markup=False)
        if self.approaches and self.read is not None:
            count = len(self.approaches)
            self.console.print(f"  a: {count} other way{'s' * (count > 1)} to write it, and what each costs")
        elif self.approaches:
            self.console.print(f"  Other ways to write it: mini-vllm approaches {task.name}")

    def check_stack(self, phase: PlannedPhase) -> None:
        def show(check: EngineCheck, seconds: float) -> None:
            screen.show_stack(self.console, phase, check, seconds)
            if check.status == "passed" and not self.session.unfinished():
                self.show_end()

        self.jobs.add(lambda stop: stack_check(phase.number, stop), show, is_verdict=True)

    # Keys

    def hint(self) -> None:
        if self.session.current is None:
            self.console.print("All tasks have passed: there is nothing to hint at.")
            return
        try:
            show_hint(self.console, self.session.current.name)
        except (ValueError, OSError) as error:
            self.console.print(str(error), markup=False)

    def skip(self) -> None:
        self.jobs.drop_verdicts()
        self.session.skip()
        self.grade_next()

    def unfold(self) -> None:
        """Print the next approach to the task that has passed last; from the last one, the first again."""
        if self.passed is None:
            self.console.print("Nothing has passed yet. mini-vllm approaches 1.1 grades a task, and unfolds them then.")
        elif not self.approaches:
            self.console.print(f"No other ways to write {self.passed.name} are kept.")
        else:
            screen.show_approach(self.console, self.passed.name, self.approaches, self.num_unfolded)
            self.num_unfolded = (self.num_unfolded + 1) % len(self.approaches)

    def show_step(self) -> None:
        """Print a step of the learner's engine, first the one with most to see, then the steps after it."""

        def show(run: ShownRun, seconds: float) -> None:
            self.step = run.first if self.run is None else (self.step + 1) % max(1, len(run.recording.steps))
            self.run = run
            screen.show_step(self.console, run, self.step)
            if self.read is not None:
                self.console.print("o: the next step", style=FAINT)

        known = self.run
        self.ask(lambda: known or run_of(written_lineup(), real=False), show)

    def share(self) -> None:
        lineup = self.lineup_of_finish() if not self.session.unfinished() else written_lineup()
        self.ask(lambda: run_of(lineup, real=True), lambda run, seconds: self.write(run))

    def ask(self, work: Callable[[], ShownRun], show: Callable[[ShownRun, float], None]) -> None:
        """Run the learner's engine; print why it cannot run, or `show` its run."""

        def shown(result: ShownRun | str, seconds: float) -> None:
            if isinstance(result, str):
                self.console.print(f"Your engine did not run to the end.\n{result}", markup=False, soft_wrap=True)
            else:
                show(result, seconds)

        def careful() -> ShownRun | str:
            try:
                return work()
            except (FreshError, ValueError) as error:
                return str(error)

        self.jobs.add(lambda stop: careful(), shown)

    # The end

    def lineup_of_finish(self) -> Lineup | None:
        """Return the phases of the finish, all of them the learner's; without a finish all that is written."""
        if self.finish not in FINISHES:
            return written_lineup()
        return parse_lineup(",".join(f"starter:{phase.number}" for phase in self.session.phases))

    def show_end(self) -> None:
        """Print the learner's own engine at work, once everything passes, and write the page to share."""

        def show(run: ShownRun, seconds: float) -> None:
            screen.show_step(self.console, run, run.first)
            self.console.print(f"\n{totals(list(run.recording.steps))}", markup=False)
            for asked, said in run.texts.items():
                self.console.print(f"\n{asked}\n  {said}", markup=False)
            heading(self.console, f"This is your engine, and you have finished: {self.finish}.")
            if not Path(page_name(self.finish)).exists():
                self.write(run)
            if after := NEXT.get(self.finish):
                self.console.print(f"next: {after}", markup=False)
            self.show_keys()

        lineup = self.lineup_of_finish()
        self.ask(lambda: run_of(lineup, real=True), show)

    def write(self, run: ShownRun) -> None:
        """Write the page of a run under a name that is free."""
        file = free_name(Path(page_name(self.finish)))
        try:
            write_page(file, page_of(run).encode())
        except OSError as error:
            self.console.print(f"{file} cannot be written: {error.strerror}", markup=False)
            return
        self.console.print(f"A page to share: {file.resolve()}", markup=False, soft_wrap=True)


def page_name(finish: str) -> str:
    return f"mini-vllm-{finish if finish in FINISHES else 'run'}.html"


def named(grade: PhaseGrade) -> list[str]:
    return [f"{grade.plan.number}.{task.plan.number}" for task in grade.tasks]


def run_of(lineup: Lineup | None, *, real: bool) -> ShownRun:
    """Return a run of a lineup, on the embedded model if it may take seconds; without phase 1 a recorded one."""
    if lineup is None:
        return observed_run()
    return shown_run(lineup if real else replace(lineup, runner="absent"))
