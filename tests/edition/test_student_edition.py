"""Tests what a learner can do with only the student edition."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mini_vllm_labs.pictures.terminal.learner_lineup import activation
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES
from mini_vllm_labs.runs.starter_status import LABS, lab_folder, phase_in, starter_path
from tests.course.surface import solution_path
from tests.edition.conftest import run


def test_every_graded_test_of_a_new_edition_fails_and_names_a_task_of_its_own_phase(
    student: Path, tmp_path: Path
) -> None:
    report, folders = (
        tmp_path / "report.xml",
        [f"labs/{lab_folder(phase)}" for phase in LABS],
    )  # so that electives are counted too
    done = run(student, "pytest", *folders, "-q", "--tb=no", "-p", "no:cacheprovider", f"--junitxml={report}")
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr
    num_tests = Counter[int]()
    for case in ElementTree.parse(report).iter("testcase"):
        phase = phase_in((case.get("classname") or "..").split(".")[1])
        assert phase, f"a test outside the phases: {case.attrib}"
        num_tests[phase] += 1
        failure = case.find("failure")
        assert failure is not None, f"passed, skipped, or an error outside the test: {case.attrib}"
        message = failure.get("message") or ""
        assert re.match(rf"NotImplementedError: Phase {phase}, tasks? \d", message), f"{case.attrib}: {message}"
    assert num_tests.total() > 100
    assert set(num_tests) == set(LABS), "a phase without graded tests"


PROGRAM = """
import json
from mini_vllm import EngineConfig, LLM, parse_lineup
from mini_vllm.assembly.lineup import default_lineup_text, lineup_from_env
from mini_vllm.assembly.parts import solutions_exist

def outcome(action):
    try:
        return f"nothing raised: {action()}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

config = EngineConfig(max_model_len=40, num_gpu_blocks=12, block_size=4)
print(json.dumps([
    [solutions_exist(), default_lineup_text(), str(lineup_from_env()), str(parse_lineup("starter"))],
    [outcome(lambda: parse_lineup(text)) for text in ("solution", "starter:1-3,solution:4")],
    outcome(lambda: LLM(config=config, lineup=parse_lineup("starter:1-5"))),
    outcome(lambda: LLM(config=config, lineup=parse_lineup("starter:1")).generate("hello")),
]))
"""


@pytest.mark.parametrize("is_left_over", [False, True], ids=["no solutions", "git left their compiled files"])
def test_an_edition_knows_the_learners_own_code_alone(learner: Path, is_left_over: bool) -> None:
    if is_left_over:
        (learner / "solutions" / "__pycache__").mkdir(parents=True)
    # `-S` hides an installed mini-vLLM, which has its own solutions.
    command = [sys.executable, "-S", "-c", PROGRAM]
    done = subprocess.run(command, cwd=learner, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    defaults, refused, whole, phase_1 = json.loads(done.stdout)
    assert defaults == [False, "starter", "starter", "starter"]
    for message in refused:
        assert message.startswith("ValueError")
        assert "no reference solutions" in message
        assert "'starter'" in message
    assert whole.startswith("NotImplementedError: Phase ")
    assert phase_1.startswith("NotImplementedError: Phase 1, task")


def test_the_demo_names_what_is_missing(student: Path) -> None:
    done = run(student, "mini_vllm_labs.cli", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "phase 1, the scheduler, is not written" in done.stdout
    assert "labs/phase1_scheduler_step/starter.py; next is Phase 1, task 1: clamp" in done.stdout
    assert "pytest labs/phase1_scheduler_step -m task1_1" in done.stdout


def test_an_inactive_environment_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("mini-vllm", "python"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert "activate" in activation()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert activation() == ""


@pytest.mark.parametrize("command", ["trace", "generate hello", "parity", "bench scheduler", "bench scheduler --json"])
def test_commands_that_cannot_run_yet_name_the_first_task(student: Path, command: str) -> None:
    done = run(student, "mini_vllm_labs.cli", *command.split())
    assert done.returncode == 1
    printed = done.stderr if command in ("generate hello", "bench scheduler --json") else done.stdout
    assert "Nothing can run yet" in printed
    assert "next is Phase 1, task 1: clamp" in printed
    assert "mini-vllm trace --read labs/observed/all_phases.jsonl" in printed
    assert "Traceback" not in done.stdout + done.stderr


def test_make_test_grades_and_names_the_first_task(student: Path) -> None:
    done = run(student, "mini_vllm_labs.cli", "grade", "--phase", "1")
    assert done.returncode == 0, done.stderr
    assert all("Grading tests: " in line for line in done.stderr.splitlines()), done.stderr
    assert "0 of 50 points" in done.stdout
    assert "pytest labs/phase1_scheduler_step -m task1_1" in done.stdout


def test_commands_that_need_the_reference_are_hidden_and_refused_with_a_reason(student: Path) -> None:
    shown = run(student, "mini_vllm_labs.cli", "--help").stdout
    assert "parity" in shown
    assert not re.search(r"\b(release|solution)\b", shown)
    assert "solution" not in run(student, "mini_vllm_labs.cli", "trace", "--help").stdout
    for command in ("release", "judge"):
        assert "No such command" in run(student, "mini_vllm_labs.cli", command).stderr


def test_the_oracle_compares_what_is_written_with_recorded_decisions(learner: Path) -> None:
    refused = run(learner, "mini_vllm_labs.cli", "oracle")
    assert refused.returncode == 2
    assert "use 1-2, 1-3, 1-4 or 1-5" in refused.stderr
    for phase in (1, 2):
        shutil.copy(solution_path(phase), starter_path(phase, learner))
    (learner / "mini_vllm_labs/runs/parity/traces/random.jsonl.gz").write_bytes(
        (PUBLIC_TRACES / "random.jsonl.gz").read_bytes()
    )
    done = run(learner, "mini_vllm_labs.cli", "oracle")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The same decisions in every step, block for block, in 13 traces." in done.stdout
    wrong = starter_path(2, learner).read_text(encoding="utf-8").replace("table[::-1]", "table")
    starter_path(2, learner).write_text(wrong, encoding="utf-8")
    done = run(learner, "mini_vllm_labs.cli", "oracle")
    assert done.returncode == 1
    assert "vLLM" in done.stdout
    assert "Look first at phase" in done.stdout


def test_info_lists_the_written_phases(learner: Path) -> None:
    shutil.copy(solution_path(1), starter_path(1, learner))
    shown = " ".join(run(learner, "mini_vllm_labs.cli", "info").stdout.split())
    assert "commands run starter:1, tests grade all six phases" in shown
    assert "1 scheduler step written" in shown
    assert "2 block pool next is Phase 2, task 1" in shown


def test_a_written_elective_is_run_by_the_commands_and_named(learner: Path) -> None:
    """Without `--lineup`, the settings decide whether an elective is used."""
    for phase in (*range(1, 6), 7, 8):
        shutil.copy(solution_path(phase), starter_path(phase, learner))
    shown = " ".join(run(learner, "mini_vllm_labs.cli", "info").stdout.split())
    assert "commands run starter:1-5,starter:7-8, tests grade all six phases" in shown
    assert "8 async scheduling written; serve, chat and generate use it with --async-scheduling" in shown
    command = ("mini_vllm_labs.cli", "generate", "aaa", "--fake-model", "--max-tokens", "9", "--max-model-len", "99")
    texts = [
        run(learner, *command, *option.split()).stdout
        for option in ("", "--speculative-method ngram", "--async-scheduling")
    ]
    assert texts[0].strip()
    assert len(set(texts)) == 1


def test_parity_waits_for_phases_1_to_5(learner: Path) -> None:
    for phase in (1, 3):
        shutil.copy(solution_path(phase), starter_path(phase, learner))
    done = run(learner, "mini_vllm_labs.cli", "parity")
    assert done.returncode == 2
    assert "this lineup lacks 2, 4 and 5." in done.stderr


def test_the_demo_runs_on_what_is_written(learner: Path) -> None:
    for phase in (1, 2, 4):
        shutil.copy(solution_path(phase), starter_path(phase, learner))
    done = run(learner, "mini_vllm_labs.cli", "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Phases 1, 2 and 4 are written: the engine runs on what you have" in done.stdout
    assert "next is Phase 3, task 1" in done.stdout
    assert "Phase 3 is absent" in done.stdout
    assert re.search(r"^step \d", done.stdout, re.MULTILINE)
    assert run(learner, "mini_vllm_labs.cli", "demo", LAB_IMPL="starter:1-5").returncode == 1, (
        "a lineup that was asked for is not replaced"
    )


def test_its_own_commands_and_packages_name_only_what_is_there(student: Path, edition: dict[str, bytes]) -> None:
    settings = tomllib.loads(edition["pyproject.toml"].decode())["tool"]
    named = [*settings["pytest"]["ini_options"]["testpaths"], *settings["mypy"]["packages"]]
    named += [pattern.rstrip("*") for pattern in settings["setuptools"]["packages"]["find"]["include"]]
    assert [name for name in named if not (student / name).is_dir()] == []
    program = "from setuptools.build_meta import build_editable; import sys; build_editable(sys.argv[1])"
    copy = Path(shutil.copytree(student, student.parent / "packed", ignore=shutil.ignore_patterns("embedded_model")))
    done = subprocess.run(
        [sys.executable, "-c", program, str(copy)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"test": [["-m", "mini_vllm_labs.cli", "grade"]]' in edition["lab.py"].decode()


def test_its_code_is_formatted_and_linted(student: Path) -> None:
    for arguments in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        done = run(student, "ruff", *arguments)
        assert done.returncode == 0, done.stdout
