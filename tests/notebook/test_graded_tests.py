"""`lab.test()`: a page made from the parts of the failures, next to the same text as in a terminal."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.labtest.case_table import shares_of
from mini_vllm_labs.grading.labtest.expect import difference_report, fail_with_smallest, lab_failure
from mini_vllm_labs.grading.labtest.failure import Failed, Shares, parts_of
from mini_vllm_labs.notebook.graded_page import graded_page, line_of, step_bars
from mini_vllm_labs.runs.starter_status import starter_path

MISTAKE = (
    "if kv.allocate_slots(request, num_new_tokens) is None:",
    "if not kv.allocate_slots(request, num_new_tokens):",
)
SHOW = """
import json
from mini_vllm_labs.notebook import Lab

graded = Lab(1, "starter").test(%s)
bundle = graded._repr_mimebundle_()
print(json.dumps([bundle["text/html"], bundle["text/plain"], bool(graded), repr(graded), graded.command]))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course in which phase 1 is written with one mistake, except for its last task."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("mini_vllm", "mini_vllm_labs", "labs", "solutions"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, folder / name)
    source = (folder / "solutions" / "phase1_scheduler_step.py").read_text(encoding="utf-8")
    assert MISTAKE[0] in source
    before, name, after = source.replace(*MISTAKE).partition("def update_from_output")
    head = after[: after.index('"""', after.index('"""') + 3) + 3]
    task = '\n    raise NotImplementedError("Phase 1, task 4: update_from_output")\n'
    starter = folder / "labs" / "phase1_scheduler_step" / "starter.py"
    starter.write_text(before + name + head + task, encoding="utf-8")
    return folder


def graded(checkout: Path, task: str = "") -> list[Any]:
    """Run the copy's graded tests from its notebooks folder, as a cell does."""
    notebooks = checkout / "notebooks"
    notebooks.mkdir(exist_ok=True)
    command = [sys.executable, "-c", SHOW % task]
    environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "HOME": str(checkout)}
    done = subprocess.run(command, cwd=notebooks, env=environment, capture_output=True, text=True, check=True)
    shown: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return shown


@pytest.fixture(scope="module")
def shown(checkout: Path) -> list[Any]:
    return graded(checkout)


def test_a_dot_stands_for_each_test_and_tasks_are_in_rows(shown: list[Any]) -> None:
    html, text, passed, *_ = shown
    assert not passed
    kinds = re.findall(r'class="mvt-dot (\w+)"', html)
    counts = re.search(r"(\d+) failed.*, (\d+) passed", text)
    assert counts
    assert kinds.count("passed") == int(counts[2])
    assert kinds.count("failed") >= int(counts[1])
    assert kinds.count("other") > 0
    assert f"<strong>{counts[2]} of {len(kinds)} tests pass</strong>" in html
    assert re.findall(r'mvt-name"><strong>(1\.\d)</strong> ([\w ]+)<', html) == [
        ("1.1", "clamp"),
        ("1.2", "running requests"),
        ("1.3", "admission"),
        ("1.4", "update from output"),
        ("1.5", "in an engine"),
    ]


def test_the_first_failure_is_open_with_bars_values_and_hint(shown: list[Any]) -> None:
    html = shown[0]
    assert html.count('class="mvt-failure" open') == 1
    first = html[html.index('class="mvt-failure" open') :]
    assert "1.2 allocate_slots returns the blocks it took" in first
    assert 'aria-label="expected: A 1, B 1"' in first
    assert 'aria-label="yours: A 1"' in first
    assert re.search("<th>plan</th><td>.*A:1.*B:1.*</td><td>.*A:1", first)
    assert "As expected: never allowed" in first
    assert re.search(r"<strong>Hint:</strong> [^<]+\?</p>", first)
    assert re.search(r"\d+ more failures</summary>", first)


def test_what_is_not_written_is_named_with_a_link_to_its_line(shown: list[Any], checkout: Path) -> None:
    starter = (checkout / "labs" / "phase1_scheduler_step" / "starter.py").read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(starter, start=1) if "task 4" in text)
    assert "<strong>Next:</strong> Phase 1, task 4: update_from_output." in shown[0]
    assert f'href="../labs/phase1_scheduler_step/starter.py#line={line - 1}"' in shown[0]
    assert f"starter.py, line {line}</a>" in shown[0]


def test_the_text_is_that_of_the_terminal_and_folded_in_the_page(shown: list[Any], checkout: Path) -> None:
    html, text, _, plain, command = shown
    assert text == plain
    assert text.startswith(f"{command}\n")
    assert "LAB_IMPL=starter pytest labs/phase1_scheduler_step" in command
    assert html.count("your code") >= 1
    assert html.index("Console output") > html.index("more failures")
    environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "LAB_IMPL": "starter", "COLUMNS": "100"}
    options = ["-q", "-p", "no:cacheprovider", "--color=no", "labs/phase1_scheduler_step"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=checkout, env=environment, capture_output=True, text=True
    )

    def timeless(output: str) -> str:
        return re.sub(r"in [\d.]+s", "", output)

    assert timeless(text.partition("\n")[2]) == timeless(done.stdout)


def test_one_task_alone_and_a_crash_leads_to_its_line(checkout: Path) -> None:
    starter = checkout / "labs" / "phase1_scheduler_step" / "starter.py"
    kept = starter.read_text(encoding="utf-8")
    broken = kept.replace("return max(0, min(num_new, budget))", "return max(0, min(num_new, budgett))")
    assert broken != kept
    line = next(n for n, text in enumerate(broken.splitlines(), start=1) if "budgett" in text)
    try:
        starter.write_text(broken, encoding="utf-8")
        html = graded(checkout, "1")[0]
        starter.write_text("def clamp(:\n", encoding="utf-8")
        unreadable = graded(checkout, "1")[0]
    finally:
        starter.write_text(kept, encoding="utf-8")
    assert re.findall(r'mvt-name"><strong>(1\.\d)', html) == ["1.1"]
    assert f"starter.py#line={line - 1}" in html
    assert "NameError" in html
    assert "Your file cannot be imported" in unreadable
    assert "line 1" in unreadable


def test_tests_that_ended_early_show_what_was_printed() -> None:
    page = graded_page([], 1, "your code", "your code was <still> running")
    assert "The tests ended early" in page
    assert "your code was &lt;still&gt; running" in page


def test_a_failure_carries_its_parts() -> None:
    shares = Shares({"A": 1}, {"A": 2}, 8)
    report = difference_report(
        {"plan": 2}, {"plan": 1}, rule="R.", situation="s", hint="h?", calls=["f()"], shares=shares
    )
    assert "expected   yours" in report
    assert report.parts
    assert list(report.parts.rows) == [("plan", "1", "2")]
    with pytest.raises(Failed) as smallest:
        fail_with_smallest(["", report])
    assert parts_of(smallest.value) == report.parts
    with pytest.raises(pytest.fail.Exception) as bare:
        lab_failure(rule="R.", situation="s", expected=1, yours=2, hint="h?")
    parts = parts_of(bare.value)
    assert parts
    assert list(parts.rows) == [("", "1", "2")]
    assert parts_of(ValueError()) is None
    assert not difference_report(1, 1, rule="", situation="", hint="")


def test_bars_of_a_step_show_what_differs() -> None:
    drawn = step_bars({"A": 3, "B": 1}, {"B": 2}, 100)
    assert drawn.count("mvt-wrong") == 1
    assert 'aria-label="yours: B 2"' in drawn
    assert step_bars({}, {}, 10).count("nothing") == 2
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", drawn)]
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.01)


def test_the_plans_of_a_step_are_drawn_as_they_are_told() -> None:
    expected = {"plan": ["A:3", "1:0:12"], "budget left": 5}
    assert shares_of({"plan": ["A:None"]}, expected) == Shares({"A": 3, "1:0": 12}, {}, 20)
    assert shares_of({"never allowed": ["no plan"]}, expected) == Shares({"A": 3, "1:0": 12}, {}, 20)
    assert shares_of({"usage": 1}, {"usage": 2}) is None


@pytest.mark.parametrize(
    ("phase", "about", "line"),
    [(1, "clamp", "def clamp"), (2, "block_pool", "class BlockPool"), (6, "slot_mapping", "def compute_slot_mapping")],
)
def test_a_wrong_answer_leads_to_the_function_of_its_test_file(phase: int, about: str, line: str) -> None:
    number = line_of(phase, about)
    assert number
    assert starter_path(phase).read_text(encoding="utf-8").splitlines()[number - 1].lstrip().startswith(line)
    assert line_of(phase, "running_requests") is None
