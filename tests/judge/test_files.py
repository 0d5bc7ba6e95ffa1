"""Files that are not Python text, or need a newer Python: the messages of `grade`, the judge and `collect`."""

import codecs
import sys
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.classroom.judge.jail import find_jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.grading.starter_file import complaint_about_file
from mini_vllm_labs.runs.sandbox.source_text import (
    complaint_about_content,
    newer_syntax,
    whereabouts,
    written_for_newer,
)
from tests.grading.checkout import solution
from tests.judge.test_downloads import packed
from tests.judge.test_submission import make_zip

TEXT = "def clamp(number):\n    return number  # ä\n"
NO_TEXT = {
    "a zip archive or a .docx": packed(phase1=b"x"),
    "a gzip archive": b"\x1f\x8b\x08\0",
    "a PDF": b"%PDF-1.7\n",
    "a Word document": b"\xd0\xcf\x11\xe0\xa1\xb1",
    "an RTF document": b"{\\rtf1 x}",
    "a picture": b"\x89PNG\r\n",
    "a web page": b"\n <!DOCTYPE html><html></html>",
    "a Jupyter notebook": b'{\n "cells": [], "nbformat": 4}',
    "compiled bytecode": b"\xa7\r\r\n\0\0\0\0" + bytes(8),
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
    "UTF-16 text": TEXT.encode("utf-16"),
    "UTF-32 text": TEXT.encode("utf-32"),
    "UTF-16 text: save": TEXT.encode("utf-16-le"),
    "UTF-16 text: save it": TEXT.encode("utf-16-be"),
    "UTF-32 text: save": TEXT.encode("utf-32-le"),
    "a NUL byte at byte 4,": b"x =\0 1\n" + TEXT.encode(),
    "not UTF-8 text, byte 41": TEXT.encode("latin-1"),
    "not UTF-8 text": b"# coding: no-such-coding\n",
}
FINE = (
    *(b"", TEXT.encode(), codecs.BOM_UTF8 + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()),
    "# coding: latin-1\nx = 'ä'\n".encode("latin-1"),
)
NEWER = {
    "3.12": ("type X = int", "type X[T] = list[T]", "def f[T](x: T) -> T: ...", "class A[T]: ...", 'f"{d["a"]}"'),
    "3.13": ("def f[T = int](x: T) -> T: ...",),
    "3.14": ("t'{x}'", "try: x\nexcept A, B: y", 'print(t"x")'),
}


@pytest.mark.parametrize("told", NO_TEXT)
def test_a_file_that_is_no_text_is_named_in_one_line_with_what_to_do(tmp_path: Path, told: str) -> None:
    (tmp_path / "starter.py").write_bytes(NO_TEXT[told])
    complaint = complaint_about_content(NO_TEXT[told])
    assert told in complaint
    assert any(what in complaint for what in ("hand it in again", "save it as UTF-8", "hand in the", "git lfs pull"))
    assert "\n" not in complaint
    assert complaint in complaint_about_file(tmp_path / "starter.py")


@pytest.mark.parametrize("content", FINE)
def test_text_is_no_reason_to_complain(content: bytes) -> None:
    compile(content, "starter.py", "exec")
    assert (complaint_about_content(content), written_for_newer(content)) == ("", "")


@pytest.mark.parametrize(("version", "line"), [(version, line) for version, lines in NEWER.items() for line in lines])
def test_a_line_for_a_newer_python_names_both(version: str, line: str) -> None:
    if sys.version_info >= tuple(map(int, version.split("."))):
        pytest.skip(f"this Python reads it: {sys.version}")
    found = written_for_newer(f"x = 1\n{line}\n".encode())
    assert found.startswith(f"line {2 + line.count(chr(10))}: ")
    assert f"needs Python {version}; this is Python {sys.version_info[0]}.{sys.version_info[1]}." in found


@pytest.mark.parametrize("line", ["x ==== 1", "def f(:", "print('a' 'b", "f'{a'", "except A, B"])
def test_another_syntax_error_only_names_this_python(line: str) -> None:
    with pytest.raises(SyntaxError) as raised:
        compile(line, "starter.py", "exec")
    assert "Python 3." in newer_syntax(raised.value)


def test_a_name_that_is_elsewhere_is_told_where() -> None:
    for line in ("from itertools import no_such", "import itertools; itertools.no_such", "from annotationlib import x"):
        with pytest.raises((ImportError, AttributeError)) as raised:
            exec(line)
        assert whereabouts(raised.value).startswith("This is Python 3.")
    with pytest.raises(ModuleNotFoundError) as moved:
        import_module("mini_vllm.core.gates.connector")
    assert whereabouts(moved.value) == "mini_vllm.core.gates has moved: change the import to mini_vllm.electives.gates."
    assert whereabouts(AttributeError("x", obj=1)) == whereabouts(ModuleNotFoundError("x", name="nothing")) == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (NO_TEXT["UTF-16 text"], "The file cannot be loaded. It is UTF-16 text, not Python text: save it as UTF-8."),
        (b"x ==== 1", "syntax error in line 1"),
        (b"x ==== 1", "This is Python 3."),
    ],
)
def test_the_judge_says_it(content: bytes, told: str) -> None:
    judge = Judge(JudgeSettings("files", 1, phases=(1,)), find_jail())
    (phase,) = judge.grade(Submission("x", {1: content})).result()["phases"]
    assert told in str(phase["error"])


GLOBAL_STATE = """
import decimal, faulthandler, gc, locale, logging, os, random, signal, sys, time, tracemalloc, warnings
locale.setlocale(locale.LC_ALL, "")
os.environ.clear()
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
decimal.getcontext().prec = 2
sys.setrecursionlimit(500)
sys.set_int_max_str_digits(640)
warnings.simplefilter("error")
os.chdir("/")
os.umask(0o777)
random.seed(0)
sys.stdout.close()
sys.stderr = sys.stdin = None
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
gc.disable()
logging.basicConfig(level=0)
sys.excepthook = sys.displayhook = print
"""


def test_global_state_that_an_honest_file_sets_costs_nothing() -> None:
    judge = Judge(JudgeSettings("state", 1, phases=(1, 3)), find_jail())
    starters = {phase: f"{solution(phase)}\n{GLOBAL_STATE}".encode() for phase in (1, 3)}
    found = judge.grade(Submission("x", starters)).result()
    assert found["points"] == found["max"]


def test_collect_warns_of_what_the_judge_cannot_read(tmp_path: Path) -> None:
    entries = {
        "ada_11_901_phase1.py": b"except A, B",
        "bob_12_902_phase1.py": NO_TEXT["a PDF"],
        "eve_13_9_phase1.py": b"",
    }
    told = CliRunner().invoke(app, ["collect", str(make_zip(tmp_path / "x.zip", entries)), str(tmp_path / "out")])
    assert told.exit_code == 0
    assert "check: the judge cannot read bob_12_902_phase1.py: it is a PDF" in told.output
    is_old = sys.version_info < (3, 14)
    assert ("check: the judge cannot read ada_11_901_phase1.py: line 1: `except A, B:`" in told.output) == is_old
    assert "eve" not in told.output.replace(str(tmp_path), "")
