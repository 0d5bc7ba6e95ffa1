"""The learner's next step, with its command."""

from course.grading.plan import PlannedPhase, PlannedTask
from course.grading.results import Grade, PhaseGrade
from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm.assembly.parts import solutions_exist

NOTEBOOKS = "notebooks 07 (tune it), 08 (refute claims about vLLM), 09 (write a scheduling policy)"


def next_step(grade: Grade) -> tuple[str, str]:
    """Return the next step and its command, which may be empty."""
    for phase in grade.phases:
        if step := step_in_phase(phase):
            return step
    if len(grade.course) < len(PHASE_NAMES):
        return "all that was graded is done. The other phases:", "mini-vllm grade"
    return f"all six phases are done. Now use your engine: {NOTEBOOKS}", "make lab"


def beside_next_step(grade: Grade) -> str:
    """Return what the learner can do besides phase 6, once phases 1 to 5 are finished; empty before and after."""
    unfinished = [phase.plan.number for phase in grade.course if step_in_phase(phase)]
    if len(grade.course) == len(PHASE_NAMES) and unfinished == [len(PHASE_NAMES)]:
        return f"Your phases 1 to 5 run {NOTEBOOKS}: make lab"
    return ""


def step_in_phase(grade: PhaseGrade) -> tuple[str, str] | None:
    """Return the next step in a phase, None if it is finished."""
    number = grade.plan.number
    if grade.error:
        return f"Phase {number}: fix {grade.plan.starter}, then", f"mini-vllm grade --phase {number}"
    for task in grade.tasks:
        if task.status != "passed":
            return f"Phase {number}, task {task.plan.number} ({handout(grade.plan)})", task_command(
                grade.plan, task.plan
            )
    if grade.oracle.status == "failed":
        command = f"mini-vllm oracle --phase {number}"
        if grade.plan.is_elective:
            command = f"mini-vllm parity --lineup solution:1-5,starter:{number}"
        return f"Phase {number}: the first difference from the reference", command
    if grade.stack.status == "failed":
        return stack_step(grade)
    return None


def stack_step(grade: PhaseGrade) -> tuple[str, str]:
    """Return the next step for a phase that passes alone and fails in the stack."""
    number, culprits = grade.plan.number, grade.stack.culprits or [grade.plan.number]
    what = f"Phase {culprits[0]}: make it work together with the others (up to phase {number})"
    if grade.plan.is_elective:
        return what.replace("(up to", "(1 to 5 and"), f"mini-vllm parity --lineup starter:1-5,starter:{number}"
    if number < 6 and solutions_exist():
        return what, f"mini-vllm oracle --phase {'1' if number == 1 else f'1-{number}'}"
    return what, f"mini-vllm trace --lineup starter:1-{number}" if number < 6 else ""


def task_command(phase: PlannedPhase, task: PlannedTask) -> str:
    return f"{impl_prefix()}pytest {phase.folder} -m task{phase.number}_{task.number}"


def test_command(phase: PlannedPhase, test: str) -> str:
    """Return the command that runs one test on the learner's file."""
    name = f"{phase.folder}/{test}"
    return f"{impl_prefix()}pytest " + (f"'{name}'" if any(mark in name for mark in "[] ") else name)


def impl_prefix() -> str:
    """Return the prefix that makes pytest grade the learner's file where the default is the reference."""
    return "LAB_IMPL=starter " if solutions_exist() else ""


def handout(phase: PlannedPhase) -> str:
    return f"{phase.folder}/README.md"
