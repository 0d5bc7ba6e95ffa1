"""The grade for people: one screen with the results, each phase's first failure, and the next step."""

from collections.abc import Sequence
from math import floor
from typing import cast

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.grading.plan import PlannedPhase, impl_prefix, task_command
from mini_vllm_labs.grading.results import EngineCheck, Grade, PhaseGrade, TaskGrade, alike_line
from mini_vllm_labs.pictures.terminal.differences import last_steps, side_by_side
from mini_vllm_labs.pictures.terminal.learner_lineup import enumeration
from mini_vllm_labs.runs.starter_status import LABS

NOTEBOOKS = "notebooks 07 (tune it), 08 (refute claims), 09 (write a scheduling policy), 14 (decide inside vLLM)"


def next_step(grade: Grade) -> tuple[str, str]:
    for phase in grade.phases:
        if step := step_in_phase(phase):
            return step
    if len(grade.course) < len(PHASE_NAMES):
        return "all graded phases are done. Continue with the others:", "mini-vllm grade"
    return f"all six phases are done. Now use your engine: {NOTEBOOKS}; 'The end' in labs/README.md", "mini-vllm lab"


def beside_next_step(grade: Grade) -> str:
    """Suggest something other than phase 6 if only phase 6 is unfinished; otherwise, return an empty string."""
    unfinished = [phase.plan.number for phase in grade.course if step_in_phase(phase)]
    if len(grade.course) == len(PHASE_NAMES) and unfinished == [len(PHASE_NAMES)]:
        return f"Your phases 1 to 5 run {NOTEBOOKS}: mini-vllm lab"
    return ""


def step_in_phase(grade: PhaseGrade) -> tuple[str, str] | None:
    """Return the next step in a phase, or None if the phase is finished."""
    number = grade.plan.number
    if grade.error:
        return f"Phase {number}: fix {grade.plan.starter}, then", f"mini-vllm grade --phase {number}"
    for task in grade.tasks:
        if task.status != "passed":
            where = f"Phase {number}, task {task.plan.number} ({handout(grade.plan)})"
            return where, task_command(grade.plan, task.plan)
    if grade.oracle.status == "failed":
        command = f"mini-vllm oracle --phase {number}"
        if grade.plan.is_elective:
            command = f"mini-vllm parity --lineup solution:1-5,starter:{number}"
        return f"Phase {number}: the first difference from the reference", command
    if grade.stack.status == "failed":
        return stack_step(grade)
    if why := why_not_graded(grade.stack):
        first = grade.stack.culprits[0]
        return f"Phase {number} cannot run in the stack yet, because {why}", f"mini-vllm grade --phase {first}"
    return None


def stack_step(grade: PhaseGrade) -> tuple[str, str]:
    """Return the next step for a phase that passes alone but fails in the stack."""
    number, culprits = grade.plan.number, grade.stack.culprits or [grade.plan.number]
    what = f"Phase {culprits[0]}: make it work together with the others (up to phase {number})"
    if grade.plan.is_elective:
        return what.replace("(up to", "(1 to 5 and"), f"mini-vllm parity --lineup starter:1-5,starter:{number}"
    if number < 6 and solutions_exist():
        return what, f"mini-vllm oracle --phase {'1' if number == 1 else f'1-{number}'}"
    return what, f"mini-vllm trace --lineup starter:1-{number}" if number < 6 else ""


def test_command(phase: PlannedPhase, test: str) -> str:
    """Return the command that runs one test on the learner's file."""
    name = f"{phase.folder}/{test}"
    return f"{impl_prefix()}pytest " + (f"'{name}'" if any(mark in name for mark in "[] ") else name)


def handout(phase: PlannedPhase) -> str:
    return f"{phase.folder}/README.md"


MAX_LINES = 25
STYLES = {"passed": "green", "failed": "red", "error": "bold red", "not started": "dim", "not yet": "dim"}
WORDS = {"passed": "pass", "failed": "fail", "error": "error"}


def show_grade(console: Console, grade: Grade) -> None:
    console.print(summary(grade))
    console.print()
    for line in point_lines(grade):
        console.print(line, style="bold")
    console.print("- nothing yet   alone: the phase by itself   stack: phases up to it", style="dim")
    for phase in grade.phases:
        show_verdict(console, phase)
        if phase.note:
            console.print(f"Phase {phase.plan.number}: {phase.note}", style="yellow", markup=False, soft_wrap=True)
    shown = {phase.plan.number for phase in grade.phases}
    show_not_graded(console, grade.phases)
    for phase in grade.phases:
        others = set(phase.stack.culprits) - {phase.plan.number}
        if not others & shown:  # otherwise, the faulty phase's failure has already been shown
            show_failure(console, phase)
    what, command = next_step(grade)
    console.print()
    if grade.course and not grade.electives:
        console.print(f"electives (phases 7 to {len(LABS)}) are graded once you begin them", style="dim")
    console.print(Text.assemble(("next: ", "bold"), what), soft_wrap=True)
    if command:
        console.print(f"      {command}", style="bold", markup=False, soft_wrap=True)
    if also := beside_next_step(grade):
        console.print(f"also: {also}", style="dim", markup=False, soft_wrap=True)


def point_lines(grade: Grade) -> list[str]:
    """Return a line with the course's points, and one for electives if any were graded."""
    lines = [f"{number(grade.points)} of {grade.max_points} points, 10 a task"] if grade.course else []
    if grade.electives:
        lines.append(f"electives: {number(grade.elective_points)} of {grade.max_elective_points} points")
    return lines


def summary(grade: Grade) -> Table:
    """Return a table with a row per phase and a cell per task."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("phase", no_wrap=True)
    num_tasks = max(len(phase.tasks) for phase in grade.phases)
    for task in range(1, num_tasks + 1):
        table.add_column("task 1" if task == 1 else str(task), justify="right", no_wrap=True, min_width=3)
    for heading in ("points", "alone", "stack"):
        table.add_column(heading, justify="right", no_wrap=True)
    for phase in grade.phases:
        cells = [task_cell(phase, task) for task in phase.tasks]
        points = Text(f"{number(phase.points)}/{phase.plan.points}", "bold" if phase.points else "dim")
        table.add_row(
            f"{phase.plan.number} {phase.plan.name}",
            *[*cells, *[Text()] * (num_tasks - len(cells))],
            points,
            status_text(phase.alone),
            status_text(phase.stack.status),
        )
    return table


def task_cell(phase: PhaseGrade, task: TaskGrade) -> Text:
    """Return a task's points, or a dash if the task is not started or cannot be graded."""
    if phase.error or task.status == "not started":
        return Text("-", STYLES["error" if phase.error else "not started"])
    return Text(number(task.points), STYLES[task.status])


def status_text(status: str) -> Text:
    return Text(WORDS.get(status, "-"), STYLES.get(status, "dim"))


def number(points: float) -> str:
    """Return points with at most one decimal, never rounded up."""
    return f"{floor(points * 10 + 1e-6) / 10:g}"  # + 1e-6, because thirds add up to 9.999


def show_verdict(console: Console, phase: PhaseGrade) -> None:
    """Name the phase at fault if `phase` passes alone but fails in the stack."""
    if phase.stack.culprits and phase.stack.status == "failed":
        names = " or ".join(map(str, phase.stack.culprits))
        own = phase.stack.culprits == [phase.plan.number]
        fault = "the fault is in this phase" if own else f"your phase {names} is at fault"
        message = f"Phase {phase.plan.number} passes alone but fails in the stack: {fault}."
        console.print(message, style="red", soft_wrap=True)


def show_not_graded(console: Console, phases: Sequence[PhaseGrade]) -> None:
    """Print the stacks that could not run because of another phase, grouped by reason."""
    reasons = {phase.plan.number: why_not_graded(phase.stack) for phase in phases}
    for reason in dict.fromkeys(filter(None, reasons.values())):
        waiting = [phase for phase in phases if reasons[phase.plan.number] == reason]
        numbers = [phase.plan.number for phase in waiting]
        names = f"phase{'s' * (len(numbers) > 1)} {enumeration(numbers)}"
        console.print(f"Not graded in the stack: {names}, because {reason}.", style="red", soft_wrap=True)
        if not set(waiting[0].stack.culprits) & set(reasons):  # otherwise, that phase's message is shown later
            show_text(console, waiting[0].stack.message)


def why_not_graded(check: EngineCheck) -> str:
    """Name the phases that must first load, finish or be written so that this stack can run; empty if none."""
    names = enumeration(check.culprits) if check.culprits else ""
    several = len(check.culprits) > 1
    match check.status:
        case "not graded":
            return f"phases {names} do not load" if several else f"phase {names} does not load"
        case "endless":
            return f"tests of phase{'s' * several} {names} do not end"
        case "not yet":
            return f"phase {names} is not fully written"
    return ""


def show_failure(console: Console, phase: PhaseGrade) -> None:
    """Print a phase's first failure with the test's message."""
    if phase.error:
        heading(console, f"Phase {phase.plan.number} could not be graded")
        show_text(console, phase.error)
        return
    if phase.is_untouched:
        return
    failures = [(task, test) for task in phase.tasks if (test := task.first_failure) and test.outcome != "not started"]
    if failures:
        task, test = failures[0]
        heading(console, f"Phase {phase.plan.number}, task {task.plan.number}: {test.id.rpartition('::')[2]}")
        show_text(console, with_missing_names(phase, test.message))
        if others := [other.id for other in phase.alike(test)]:
            console.print(f"  {alike_line(others)}", markup=False, soft_wrap=True)
        console.print(f"  again: {test_command(phase.plan, test.id)}", style="dim", markup=False, soft_wrap=True)
        return
    for name, check in (("beside the reference", phase.oracle), ("in the stack", phase.stack)):
        if check.status == "failed":
            heading(console, f"Phase {phase.plan.number} {name}")
            show_check(console, check)
            return


def with_missing_names(phase: PhaseGrade, message: str) -> str:
    """Put sentences about missing names before a test's message, without repeating any."""
    first, _, rest = message.partition("\n")
    is_repeated = any(sentence.startswith(first.removesuffix(".")) for sentence in phase.missing)
    return "\n".join([*phase.missing, *([rest] if is_repeated and rest else [] if is_repeated else [message])])


def heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold"), soft_wrap=True)


def show_text(console: Console, text: str) -> None:
    """Print a failure's message, shortened if it is long."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 6], f"[... {len(lines) - MAX_LINES + 1} lines left out ...]", *lines[-5:]]
    console.print(Padding(Text("\n".join(line[:1000] for line in lines)), (0, 0, 0, 2), expand=False))


def show_check(console: Console, check: EngineCheck) -> None:
    """Print a failed check: its message, the last steps of both engines, and the difference."""
    show_text(console, check.message)
    if check.steps is None:
        return
    steps = {side: cast(list[StepRecord], check.steps[side]) for side in ("mine", "reference")}
    # this imports 60 modules, most of them from the engine
    from mini_vllm_labs.runs.oracle.divergence import Divergence

    divergence = Divergence(check.steps["step"], check.steps["field"], steps["mine"], steps["reference"])
    console.print(last_steps("reference", divergence.reference))
    console.print(last_steps("yours", divergence.mine))
    console.print(side_by_side(divergence))
