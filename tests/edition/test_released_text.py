"""Every command, lineup, path and link in the student edition works with the edition's files alone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.classroom.packages import top_level
from mini_vllm_labs.classroom.student_edition.edition import write
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.launcher.start import start_parser
from mini_vllm_labs.runs.starter_status import starter_path
from tests.course.surface import PHASES, solution_path
from tests.edition.conftest import clean_environment, module_at
from tests.edition.released_text import Command, ReleasedText, released_texts

OUR_FOLDERS = (*top_level(), "docs", "notebooks")
NOT_THERE = re.compile(
    r"\bsolutions?/|\bsolution:|LAB_IMPL=solution|\btests/|\bmutants?\b|mini-vllm release|"
    r"\bthe reference(?! counts?\b)|\bteacher's\b"
)
NEEDS_THE_REFERENCE = ("release",)
OF_THE_LAUNCHER = "start"  # part of an installed course; tests/edition/test_wheel.py runs this one
OF_MAKE = re.compile(r"\bmake (?:lab|demo|test)\b|python lab\.py")
STALLS = {  # the handouts say that these commands fail
    "trace --lineup starter:1-2 --num-gpu-blocks 21"
}


@pytest.fixture(scope="module", params=["repository", "folder"])
def place(
    request: pytest.FixtureRequest,
    student: Path,
    learners_files: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A repository that a teacher releases, and a folder that `mini-vllm start` writes."""
    if request.param == "repository":
        return student
    write(learners_files, folder := tmp_path_factory.mktemp("started") / "my-labs")
    return folder


@pytest.fixture(scope="module")
def texts(place: Path) -> list[ReleasedText]:
    found = released_texts(place)
    assert {"README.md", "AGENTS.md", "labs/README.md", "notebooks/00_tour.ipynb"} <= {text.file for text in found}
    return found


@pytest.fixture(scope="module")
def commands(texts: list[ReleasedText]) -> list[Command]:
    found = [command for text in texts for command in text.commands()]
    assert len(found) > 80, "the search finds nothing any more"
    return found


def test_no_sentence_assumes_a_file_outside_the_edition(texts: list[ReleasedText]) -> None:
    found = {f"{text.file}: {match[0]}" for text in texts for match in NOT_THERE.finditer(text.text)}
    assert found == set()


def test_every_lineup_is_made_of_starters(texts: list[ReleasedText]) -> None:
    lineups = {lineup for text in texts for lineup in text.lineups()}
    assert len(lineups) > 5
    assert {lineup for lineup in lineups if "solution" in str(parse_lineup(lineup))} == set()


def test_every_command_of_ours_exists_with_its_options(commands: list[Command]) -> None:
    ours = [
        command
        for command in commands
        if command.words[0] == "mini-vllm" and len(command.words) > 1 and command.words[1] != OF_THE_LAUNCHER
    ]
    assert len(ours) > 25
    for command in ours:
        assert problem_with(command) is None, f"{command}: {problem_with(command)}"


def problem_with(command: Command) -> str | None:
    """Return why the command line would be rejected before anything runs, or None."""
    found: Any = typer.main.get_command(app)
    words = command.words[1:]
    if words[0] == OF_THE_LAUNCHER:
        return None if start_parser().parse_args(words[1:]) else "refused"
    while hasattr(found, "commands") and words != ["--help"]:
        name = words.pop(0) if words else ""
        if name not in found.commands or name in NEEDS_THE_REFERENCE:
            return f"there is no command {name!r}"
        _, found, _ = found.resolve_command(None, [name])
    if words == ["--help"]:
        return None
    try:
        found.make_context("mini-vllm", words)
    except Exception as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "line", ["nothing", "oracle --nope", "trace --nope", "bench", "bench nothing", "generate", "trace --seed x"]
)
def test_a_command_that_would_be_refused_is_found(line: str) -> None:
    assert problem_with(Command("here", {}, ["mini-vllm", *line.split()])) is not None


def test_every_option_that_stands_alone_exists(texts: list[ReleasedText]) -> None:
    known = {"-k", "-s", "-m", "--timeout"} | options_of(typer.main.get_command(app))
    for text in texts:
        for code in text.inline_code:
            if code.startswith("-"):
                assert [word for word in code.split() if re.match(r"--?[a-z]", word) and word not in known] == [], (
                    text.file
                )


def options_of(command: Any) -> set[str]:
    """Return the options of a command and of all its subcommands."""
    found = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    for name in getattr(command, "commands", ()):
        found |= options_of(command.resolve_command(None, [name])[1])
    return found


def test_every_graded_test_that_is_named_exists(place: Path, commands: list[Command]) -> None:
    files = [path.name.split("_") for path in place.glob("labs/*/test_task*.py")]
    tasks = {f"{task}_{number}" for _, task, number, *_ in files}
    assert len(tasks) > 20
    ours = [command for command in commands if command.words[0] == "pytest" and len(command.words) > 1]
    named = {command.words[command.words.index("-m") + 1] for command in ours if "-m" in command.words}
    assert named == tasks, "every task has its command"
    for command in ours:
        folders = [word for word in command.words[1:] if word.startswith("labs")]
        assert folders, command
        assert all((place / folder).exists() for folder in folders), command


def test_make_and_python_find_what_they_are_to_run(place: Path, commands: list[Command]) -> None:
    # a folder created by `start` has no Makefile
    made = (path.read_text(encoding="utf-8") for path in place.glob("Makefile"))
    targets = {name for text in made for name in re.findall(r"^([a-z ]+):", text, re.MULTILINE)}
    lab = module_at(next(place.rglob("lab.py")), "released_lab")
    for command in commands:
        match command.words:
            case ["make", target, *_]:
                assert target in " ".join(targets).split(), command
            case ["python", "lab.py", name, *_]:
                assert name in lab.COMMANDS, command
            case ["python", "-m", module, *_]:
                file = module.replace(".", "/")
                assert any((place / name).exists() for name in (f"{file}.py", f"{file}/__main__.py")), command


def test_only_the_first_page_of_a_repository_names_make_which_makes_an_environment(
    place: Path, commands: list[Command], edition: dict[str, bytes]
) -> None:
    pages = {command.file for command in commands if command.words[0] == "make"}
    assert pages == ({"README.md"} if (place / "Makefile").is_file() else set())
    code = {path for path, content in edition.items() if path.endswith(".py") and OF_MAKE.search(content.decode())}
    assert code == {"lab.py"}


def test_every_link_and_path_in_the_text_is_there(place: Path, texts: list[ReleasedText]) -> None:
    for text in texts:
        for link in text.links:
            assert (place / text.file).parent.joinpath(link.partition("#")[0]).exists(), f"{text.file}: {link}"
        for code in text.inline_code:
            if re.fullmatch(rf"(?:{'|'.join(OUR_FOLDERS)})/[\w./*-]*", code):
                assert list(place.glob(code.replace("phaseN_", "phase?_").rstrip("/"))), f"{text.file}: {code}"


def test_no_source_names_a_file_that_is_not_there(student: Path, edition: dict[str, bytes]) -> None:
    ours = re.compile(rf"(?<![\w/.])(?:{'|'.join(OUR_FOLDERS)})/[\w./-]*\w(?!\S*[{{*([\\])")
    for path, content in edition.items():
        if path in ("mini_vllm_labs/classroom/student_edition/texts.py", "LICENSE") or path.endswith(
            (".safetensors", ".gz", ".xz", ".jsonl", ".svg", ".png", ".gif")
        ):
            continue
        for named in ours.findall(content.decode()):
            assert (student / named).exists(), f"{path}: {named}"


PROGRAM = """
import json, sys
from typer.testing import CliRunner
from mini_vllm_labs.classroom.packages import top_level
from mini_vllm_labs.classroom.student_edition.edition import write
from mini_vllm_labs.cli.main import app
results = {}
for line in json.load(sys.stdin):
    result = CliRunner().invoke(app, line)
    results[" ".join(line)] = [result.exit_code, result.output[-600:], repr(result.exception)]
print(json.dumps(results))
"""


def test_every_trace_stages_and_generate_command_runs_on_written_starters(student: Path, tmp_path: Path) -> None:
    commands = [command for text in released_texts(student) for command in text.commands()]
    folder = Path(shutil.copytree(student, tmp_path / "whole"))
    for phase in PHASES:
        shutil.copy(solution_path(phase), starter_path(phase, folder))
    lines = {tuple(c.words[1:]) for c in commands if c.words[:2] and c.words[0] == "mini-vllm" and not c.environment}
    lines = {line for line in lines if line[:1] in (("trace",), ("stages",), ("generate",))}
    assert len(lines) > 20
    command, text = [sys.executable, "-c", PROGRAM], json.dumps(sorted(lines))
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    for line, (exit_code, output, exception) in results.items():
        assert exit_code == (1 if line in STALLS else 0), f"{line}: {exception}\n{output}"
