"""The course in the tab's Python, under Node: no browser, no network."""

import json
import re
from pathlib import Path

import pytest

from mini_vllm_labs.grading.plan import load_whole_plan
from mini_vllm_labs.upkeep.site.boot import commands_marked
from tests.site.learner import in_tab, write_solutions, write_starter

GRADE = """
from mini_vllm_labs.notebook import Lab
for phase in {phases}:
    tests = Lab(phase).test()
    print("phase", phase, bool(tests), tests.text.splitlines()[-1])
"""


def test_graded_tests_pass_on_the_reference_as_the_learners_starters(site: Path, tmp_path: Path) -> None:
    write_solutions(tmp_path, 1, 2, 3, 4, 5)
    said = in_tab(site, tmp_path, GRADE.format(phases=(1, 2, 3, 4, 5)))
    for phase in (1, 2, 3, 4, 5):
        assert f"phase {phase} True" in said, said
    assert "failed" not in said
    assert "skipped" not in said


def test_an_untouched_starter_is_told_its_next_task_as_a_line_of_a_cell(site: Path, tmp_path: Path) -> None:
    script = "from mini_vllm_labs.notebook import Lab\ntests = Lab(1).test()\nprint(tests.text, bool(tests), Lab(1))"
    said = in_tab(site, tmp_path, script)
    assert "next: Phase 1, task 1: clamp" in said
    assert "then: Lab(1).test(1)" in said
    assert "False" in said
    assert "pytest labs" not in said


LOOPS = {
    "a loop": ("    while True:\n        num_new += 1\n", "still running after 5 seconds"),
    "a loop that catches all": (
        "    while True:\n        try:\n            num_new += 1\n        except BaseException:\n            pass\n",
        "still running after 5 seconds",
    ),
    "a loop that catches all around another": (
        "    while True:\n        try:\n            while True:\n                num_new += 1\n"
        "        except BaseException:\n            pass\n",
        "still running after 5 seconds",
    ),
    "sys.exit": ("    import sys\n    sys.exit(3)\n", "ended the program"),
    "os._exit": ("    import os\n    os._exit(3)\n", "ended the program"),
}


def test_starters_that_do_not_end_or_end_all_are_explained(site: Path, tmp_path: Path) -> None:
    drives = {}
    for name, (body, _) in LOOPS.items():
        drives[name] = f"def clamp(num_new, budget, long_prefill_token_threshold=0):\n{body}"
    write_starter(tmp_path, 1, drives["a loop"])
    script = f"""
from pathlib import Path
from mini_vllm_labs.notebook import Lab
starter = Path(__import__("mini_vllm_course").COURSE, "labs/phase1_scheduler_step/starter.py")
for name, text in {drives!r}.items():
    starter.write_text(text)
    print("##", name, "|", Lab(1).test(1).text.replace(chr(10), " "))
print("still alive")
"""
    said = in_tab(site, tmp_path, script)
    assert "still alive" in said
    for name, (_, words) in LOOPS.items():
        (line,) = [line for line in said.splitlines() if line.startswith(f"## {name} |")]
        assert words in line, line


def test_a_run_that_does_not_end_is_explained_too(site: Path, tmp_path: Path) -> None:
    write_solutions(tmp_path, 1)
    script = """
from pathlib import Path
import mini_vllm_course
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
starter = Path(mini_vllm_course.COURSE, "labs/phase1_scheduler_step/starter.py")
text = starter.read_text()
starter.write_text(text + "\\n\\ndef clamp(*given, **named):\\n    while True:\\n        pass\\n")
run = Lab(1).play([TimedRequest(0, "A", [65] * 8, max_tokens=2)])
print(str(run))
starter.write_text(text)
print(type(Lab(1).play([TimedRequest(0, "A", [65] * 8, max_tokens=2)])).__name__)
"""
    said = in_tab(site, tmp_path, script)
    assert "still running after 10 seconds" in said
    assert "WorkloadRun" in said.splitlines()[-1]


@pytest.mark.parametrize(
    "name",
    [
        *("07_tuning", "08_spot_the_bug", "09_policies", "10_speculative_decoding", "11_async_scheduling"),
        *("15_structured_output", "16_kv_transfer", "17_admission_gates", "18_sliding_windows"),
    ],
)
def test_no_cell_of_a_notebook_asks_for_what_a_tab_lacks(site: Path, tmp_path: Path, name: str) -> None:
    write_solutions(tmp_path, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)
    cells = json.loads((site / f"lab/files/notebooks/{name}.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    script = (
        f"names = {{'__name__': '__main__'}}\nfor cell in {code!r}:\n    exec(cell, names)\nprint('all', len(names))"
    )
    said = in_tab(site, tmp_path, script)
    assert "The engine did not finish" not in said
    assert said.splitlines()[-1].startswith("all ")


def test_a_comment_is_no_command() -> None:
    assert commands_marked(["# notes\n", "\n", "# more"]) == ["# notes\n", "\n", "# more"]
    assert commands_marked(["# a hint\n", "mini-vllm hint 1.1\n"]) == ["# a hint\n", "!mini-vllm hint 1.1\n"]
    assert commands_marked(["python = 3\n", "python"]) == ["python = 3\n", "python"]


WRITTEN = re.compile(
    r"(?<!`)`((?:LAB_IMPL=\S+ )?(?:mini-vllm|pytest|make|pip|python) [^`]*)`|^((?:LAB_IMPL|mini-vllm ).*)$", re.M
)
IN_CELLS = re.compile(r"mini-vllm (?:hint|trace)|(?:LAB_IMPL=starter )?pytest labs/phase(?!6_)\w+(?: -m task\w+)?")


def written_commands(site: Path) -> set[str]:
    """Return the commands in the texts that the lab shows."""
    texts = [path for path in (site / "lab/files").rglob("*") if path.suffix in (".md", ".ipynb")]
    found = {a or b for text in texts for a, b in WRITTEN.findall(text.read_text("utf-8").replace('\\"', '"'))}
    return {re.sub(r"\s*\n\s*", " ", command) for command in found}


def test_every_command_of_a_text_runs_in_a_cell_or_says_where_it_runs(site: Path, tmp_path: Path) -> None:
    commands = sorted(written_commands(site))
    assert len(commands) > 100
    tasks = {
        f"{phase.folder} -m task{phase.number}_{task.number}" for phase in load_whole_plan() for task in phase.tasks
    }
    write_solutions(tmp_path, 1, 2, 3, 4, 5)
    script = f"""
import mini_vllm_course as course, traceback
from mini_vllm_labs import notebook
class Lab:
    def __init__(self, phase): self.phase = phase
    def test(self, task): self.text = f"tests {{self.phase}}.{{task}}"; return self
notebook.Lab = Lab
for line in {commands!r}:
    assert course.commands_marked([line]) == ["!" + line], line
    print("##", line)
    course.run_command(line)
"""
    said = in_tab(site, tmp_path, script)
    answers = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", said, re.MULTILINE))
    assert set(answers) == set(commands)
    for command, answer in answers.items():
        assert answer.strip(), command
        assert not re.search("Traceback|error:", answer), f"{command}\n{answer}"
        assert ("needs a local installation" in answer) == (IN_CELLS.match(command) is None), command
        if target := re.fullmatch(r"(?:LAB_IMPL=starter )?pytest (.* -m .*)", command):
            assert target[1] in tasks, command
