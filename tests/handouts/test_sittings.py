"""Each handout is cut into sittings of 30 minutes, and each sitting ends with a command that selects its tests."""

import re
import shlex

import pytest

from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.runs.starter_status import starter_path
from tests.handouts.checks.labs import sizes

MINUTES = 30
COMMAND = re.compile(
    r"^Each sitting takes 30 minutes. It ends when this command passes with the options below:\n"
    r"`LAB_IMPL=starter pytest (\S+)`$",
    re.MULTILINE,
)
ROW = re.compile(
    r"^\| (.+?) \| (.+?) \| (?:`(.+)`( fails, and names the task)?|none: all tests pass) \|$", re.MULTILINE
)
TASK = re.compile(r"^### Task (\d+\.\d+) .*?(?:\(.*?(\d+) minutes\))?$", re.MULTILINE)
PHASES = load_whole_plan()


def handout(phase: PlannedPhase) -> tuple[str, str]:
    """Return the section about sittings, and the whole text."""
    text = starter_path(phase.number).with_name("README.md").read_text(encoding="utf-8")
    return text.partition("## Sittings\n")[2].partition("\n## ")[0], text


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: f"phase {phase.number}")
def test_a_handout_is_cut_into_sittings_that_end(phase: PlannedPhase) -> None:
    section, text = handout(phase)
    (folder,) = COMMAND.findall(section)
    assert starter_path(phase.number).parent.as_posix().endswith(folder)
    minutes = {task: int(number or 0) for task, number in TASK.findall(text)}
    rows = ROW.findall(section)
    halved = {what.removeprefix("half of ") for _, what, *_ in rows if what.startswith("half of ")}
    done = list[str]()
    for number, (_, what, options, only_names) in enumerate(rows):
        tasks = re.findall(r"\d+\.\d+", what)
        needed = sum(minutes[task] / (2 if task in halved else 1) for task in tasks)
        assert needed + (sizes(phase.number)[1] if number == 0 else 0) <= MINUTES, what
        assert ("the rules" in what) == (number == 0)
        done += [] if what.startswith("half of ") else tasks
        selected = selected_by(options, phase)
        if what.startswith("half of "):
            assert set() < selected < graded(phase, tasks), options
        else:
            assert selected == graded(phase, [next(iter(minutes))] if only_names else tasks if options else []), what
    assert done == [f"{phase.number}.{task.number}" for task in phase.tasks], "every task, once and in order"
    assert options == "", "the last sitting ends with all tests of the phase"


def test_no_two_sittings_share_a_name() -> None:
    names = [row[0] for phase in PHASES for row in ROW.findall(handout(phase)[0])]
    assert len(names) == len(set(names)) > 4 * len(PHASES)


def selected_by(options: str, phase: PlannedPhase) -> set[str]:
    """Return the graded tests that pytest's options -m and -k select; their expressions use only `or`."""
    words = dict(zip(*[iter(shlex.split(options))] * 2, strict=True))
    tasks = [mark.removeprefix("task").replace("_", ".") for mark in words.get("-m", "").split(" or ") if mark]
    parts = words.get("-k", "").split(" or ")
    return {test for test in graded(phase, tasks) if any(part in test for part in parts)}


def graded(phase: PlannedPhase, tasks: list[str]) -> set[str]:
    """Return the graded tests of some tasks, or by default of all tasks; an unknown task has none."""
    return {test for one in phase.tasks if not tasks or f"{phase.number}.{one.number}" in tasks for test in one.tests}
