"""A jailed worker, which cannot write, finds a course that is already compiled, and no trace of earlier workers."""

import math
import re
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from mini_vllm_labs.classroom.judge import jail as jailing
from mini_vllm_labs.classroom.judge import worker
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.classroom.judge.worker import JailedWorker, StarterRaisedError, SubmissionDir, Workers
from tests.grading.checkout import solution


def test_what_workers_see_is_compiled_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "mini_vllm_labs/classroom/worker/inside.py",
        "mini_vllm_labs/classroom/judge/judge.py",
        "mini_vllm_labs/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(jailing, "CHECKOUT", tmp_path)
    jailing.compile_course()
    compiled = {path for path in tmp_path.rglob("*.py") if Path(cache_from_source(str(path))).exists()}
    assert compiled == {tmp_path / "mini_vllm_labs/classroom/worker/inside.py", tmp_path / "mini_vllm_labs/__init__.py"}


def test_a_checkout_that_cannot_be_written_to_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mini_vllm_labs/classroom/worker").mkdir(parents=True)
    (tmp_path / "mini_vllm_labs/classroom/worker/inside.py").write_text("x = 1")
    (
        tmp_path / "mini_vllm_labs/classroom/worker/__pycache__"
    ).touch()  # this path is not a folder, so nobody can create files in it, not even root
    monkeypatch.setattr(jailing, "CHECKOUT", tmp_path)
    jailing.compile_course()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("is_jailed", [True, False])
def test_every_situation_meets_a_fresh_process_and_python_starts_once_a_phase(
    jail: Jail, monkeypatch: pytest.MonkeyPatch, is_jailed: bool
) -> None:
    judged, file, found = jail if is_jailed else Jail(), b"import os\nraise ImportError(f'process {os.getpid()}')", []
    with SubmissionDir({1: file}) as submission, Workers(submission, judged) as workers:
        for _ in range(4):
            with pytest.raises(StarterRaisedError) as raised:
                workers.fresh(1, until=math.inf).load(1)
            found.append(re.findall(r"process \d+", str(raised.value))[0])
    assert len(set(found)) == 4
    assert points_and_starts(judged, monkeypatch) == (100, [False, True, False])


def test_where_python_cannot_fork_only_torch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = "from mini_vllm_labs.classroom.worker import inside; inside.CAN_FORK = False; inside.main()"
    monkeypatch.setattr(jailing, "BOOT", f"{jailing.BOOT.partition('from mini_vllm_labs')[0]}{boot}")
    points, started = points_and_starts(Jail(), monkeypatch)
    assert (points, started.count(True)) == (100, 1)
    assert started.count(False) > 10


def points_and_starts(jail: Jail, monkeypatch: pytest.MonkeyPatch) -> tuple[float, list[bool]]:
    """Grade the reference's phases 1 and 6; return the points, and whether each started Python process had torch."""

    class Counted(JailedWorker):
        def __init__(self, submission: SubmissionDir, jail: Jail, phase: int, *, with_torch: bool = False) -> None:
            started.append(with_torch)
            super().__init__(submission, jail, phase, with_torch=with_torch)

    started = list[bool]()
    monkeypatch.setattr(worker, "JailedWorker", Counted)
    judge = Judge(JudgeSettings("tests", situations=2, seconds=20, phases=(1, 6)), jail)
    files = {phase: solution(phase).encode() for phase in (1, 6)}
    return judge.grade(Submission("right", files)).result()["points"], started
