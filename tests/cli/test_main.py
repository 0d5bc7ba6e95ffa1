"""Tests what all commands share: their list, their imports, and how errors are shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.cli.bench.main import COMMANDS as BENCHMARKS
from mini_vllm_labs.cli.main import COMMANDS
from mini_vllm_labs.pictures.terminal import console
from mini_vllm_labs.pictures.terminal.lazy_commands import load
from tests.cli.conftest import Commands

OURS = {"labs", "mini_vllm", "mini_vllm_labs", "solutions"}
HEAVY = {"IPython", "fastapi", "httpx", "numpy", "playwright", "pytest", "torch", "transformers"}
# The number of modules in this repository; about 85 of them belong to the engine. The limit leaves a margin of a tenth,
# so that a file can be split in two.
MAX_MODULES = 155
FEW = dict.fromkeys(("approaches", "bring", "generate", "grade", "hint", "info", "lab", "watch"), 75)
MANY = {"arena": 185, "claims": 185} | dict.fromkeys(
    ("calibrate", "incidents", "judge", "league", "router", "simulate"), 175
)
LOAD_EACH = """
import json, os, sys
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.pictures.terminal.lazy_commands import load
print(json.dumps(["", sorted(sys.modules)]), flush=True)
for command in json.loads(sys.argv[1]):
    if os.fork() == 0:
        load(*command[:2])
        print(json.dumps([command[1], sorted(sys.modules)]), flush=True)
        os._exit(0)
    os.wait()
"""
ALL_COMMANDS = [
    *((name, f"mini_vllm_labs.cli.{target}", text) for rows in COMMANDS.values() for name, target, text in rows),
    *((name, f"mini_vllm_labs.cli.bench.{target}", text) for name, target, text in BENCHMARKS),
]


@pytest.mark.parametrize(("name", "target", "text"), ALL_COMMANDS)
def test_a_command_is_listed_by_the_first_sentence_of_its_help(name: str, target: str, text: str) -> None:
    assert load(name, target).help.partition("\n")[0] == text


def test_help_names_every_command(mini_vllm: Commands) -> None:
    shown, benchmarks = mini_vllm("--help").output, mini_vllm("bench", "--help").output
    for heading, rows in COMMANDS.items():
        assert f"─ {heading} ─" in shown
        assert all(f" {name} " in shown for name, *_ in rows)
    assert all(f" {name} " in benchmarks for name, *_ in BENCHMARKS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_command_imports_what_it_uses() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EACH, json.dumps(ALL_COMMANDS)], check=True, capture_output=True, text=True
    )
    loaded = dict(map(json.loads, done.stdout.splitlines()))
    assert len([name for name in loaded.pop("") if name.split(".")[0] in OURS]) <= 10, "the list of commands"
    for name, target, _ in ALL_COMMANDS:
        modules = loaded[target]
        num_ours = sum(name.split(".")[0] in OURS for name in modules)
        assert num_ours <= (FEW | MANY).get(name, MAX_MODULES), f"{name} imports {num_ours} of our modules"
        assert HEAVY.isdisjoint(modules), name


@pytest.mark.parametrize(("typed", "found"), [("mini-vllm wat", "watch"), ("mini-vllm grade --ph", "--phase")])
def test_a_shell_completes_commands_and_their_options(typed: str, found: str) -> None:
    asked = {"_MINI_VLLM_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    command = [sys.executable, "-c", "from mini_vllm_labs.cli.main import app; app(prog_name='mini-vllm')"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [found]


@pytest.mark.parametrize("line", ["trace", "parity --help", "--help", "bench --help", "grade --help", "hint 0.0"])
def test_nothing_heavy_where_none_is_needed(line: str) -> None:
    """By itself, Typer would import pydantic for each absent option and each string, a third of `hint`'s time."""
    program = (
        "import sys\nfrom mini_vllm_labs.cli.main import app\n"
        f"try:\n    app({line.split()!r})\nexcept SystemExit:\n    pass\n"
        "assert {'pydantic', 'torch', 'transformers'}.isdisjoint(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_the_commands_start_without_what_only_posix_systems_have() -> None:
    program = (
        "import sys\nfor name in ('fcntl', 'grp', 'pwd', 'resource', 'termios'):\n    sys.modules[name] = None\n"
        "from mini_vllm_labs.cli.main import app\n"
        "try:\n    app(['trace'])\nexcept SystemExit as end:\n    assert not end.code\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize("lineup", ["nonsense", "solution:2", "solution:1,solution:4", "solution:1-15"])
def test_an_illegal_lineup_is_refused_with_a_reason(mini_vllm: Commands, lineup: str) -> None:
    result = mini_vllm("trace", "--lineup", lineup, exit_code=2)
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output


def test_an_unwritten_phase_is_named_without_a_traceback(mini_vllm: Commands) -> None:
    result = mini_vllm("trace", "--lineup", "starter:1", exit_code=1)
    assert "Phase 1" in result.stderr
    assert "not written yet" in result.stderr


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        (None, "Phase 1 comes first: it decides every step."),
        ("starter:1-2", "choose a lineup of the phases that you have written: --lineup starter:1-2."),
    ],
)
def test_without_solutions_the_advice_is_a_lineup_that_runs(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, written: str | None, advice: str
) -> None:
    monkeypatch.setattr(console, "solutions_exist", lambda: False)
    monkeypatch.setattr(console, "written_lineup", lambda: written and parse_lineup(written))
    assert advice in mini_vllm("trace", "--lineup", "starter:1", exit_code=1).stderr


@pytest.mark.parametrize("kind", ["ValueError", "NameError"])
def test_an_error_in_a_learners_file_is_shown_from_there_on(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from labs.phase1_scheduler_step import starter

    source = compile(f"def broken(*a, **k): raise {kind}('mine')", starter.__file__, "exec")
    namespace: dict[str, object] = {}
    exec(source, namespace)
    monkeypatch.setattr(starter, "schedule_step", namespace["broken"])
    result = mini_vllm("trace", "--lineup", "starter:1", exit_code=1)
    assert f"error: your code raised {kind}" in result.stderr
    assert f"{kind}: mine" in result.stderr
    assert 'phase1_scheduler_step/starter.py", line 1, in broken' in result.stderr.replace("\\", "/")
    assert "mini_vllm/" not in result.stderr, "the frames above are ours"


def test_a_syntax_error_in_a_learners_file_is_shown_without_our_frames(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labs.phase1_scheduler_step import starter

    def cannot_be_read(*_: object) -> None:
        compile("def broken(:", str(starter.__file__), "exec")

    monkeypatch.setattr("mini_vllm_labs.cli.trace.make_workload", cannot_be_read)
    result = mini_vllm("trace", exit_code=1)
    assert "starter.py" in result.stderr
    assert "SyntaxError: invalid syntax" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [["one-file"], ["release"], ["collect", "no.zip"]])
def test_a_place_that_cannot_be_is_a_message(mini_vllm: Commands, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = mini_vllm(*command, tmp_path / "file" / "below", exit_code=2)
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
