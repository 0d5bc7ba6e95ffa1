"""A class on a Dask cluster of two processes: the same bytes as on this machine, whatever happens to workers.

Needs the `dask` extra.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.cli.classroom.judge import ClassProgress
from tests.cli.conftest import Commands
from tests.grading.checkout import solution
from tests.judge.files import mutant
from tests.judge.test_class_run import handed_in

OPTIONS = ("--phase", "3", "--situations", "1", "--seed", "cluster")
WRONG = mutant(3, "queue serves priority 0 last")


@pytest.fixture
def cluster() -> Iterator[Any]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


@pytest.fixture
def a_class(tmp_path: Path) -> list[Path]:
    """Return six submissions: right, wrong, empty, and one that is a link, which only this machine can see."""
    names = [f"learner{number}" for number in range(4)]
    handed_in(tmp_path, **{name: solution(3) + "\n" * number for number, name in enumerate(names)})
    for name, text in (("learner2", WRONG), ("learner3", "def")):
        (tmp_path / name / "phase1.py").write_text(text, encoding="utf-8")
    for path in (tmp_path / name for name in names):
        (path / "phase1.py").rename(path / "phase3.py")
    (tmp_path / "empty").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "phase3.py").symlink_to(tmp_path / "learner0" / "phase3.py")
    return [tmp_path / name for name in (*names, "empty", "linked")]


def results(mini_vllm: Commands, out: Path, a_class: list[Path], *more: object) -> tuple[dict[str, bytes], str]:
    """Judge the class; return every written file, and all output."""
    files = ["--json", out / "all.json", "--csv", out / "all.csv", "--feedback", out / "feedback"]
    out.mkdir()
    told = mini_vllm("judge", *a_class, *OPTIONS, *files, *more, exit_code=1).output
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.*"))}, told


def test_a_worker_that_is_killed_twice_costs_nobody_a_grade(
    mini_vllm: Commands, cluster: Any, a_class: list[Path], tmp_path: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = results(mini_vllm, tmp_path / "here", a_class)
    killed = list[int]()

    def kill_one(progress: ClassProgress, name: str, seconds: float) -> None:
        if len(killed) < 2:
            with Client(cluster.scheduler_address, set_as_default=False) as client:
                busy = [address for address, tasks in client.processing().items() if tasks]
                (pid,) = client.run(os.getpid, workers=busy[:1]).values()
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    monkeypatch.setattr(ClassProgress, "finished", kill_one)
    there = ["--dask", cluster.scheduler_address]
    found, _ = results(mini_vllm, tmp_path / "there", a_class, *there, "--resume", tmp_path / "run.jsonl")
    assert found == expected
    assert len(set(killed)) == 2
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run.jsonl").write_bytes(b"".join(lines[:-2]))  # as if it had been interrupted
    finished = list[str]()
    monkeypatch.setattr(ClassProgress, "finished", lambda progress, name, seconds: finished.append(name))
    found, _ = results(mini_vllm, tmp_path / "again", a_class, *there, "--resume", tmp_path / "run.jsonl")
    assert (found, len(finished)) == (expected, len(a_class))
    assert len((tmp_path / "run.jsonl").read_bytes().splitlines()) == len(lines)


def test_a_worker_without_a_jail_or_the_course_refuses_work(
    mini_vllm: Commands, cluster: Any, a_class: list[Path], tmp_path: Path, jail: Jail
) -> None:
    expected, _ = results(mini_vllm, tmp_path / "here", a_class)
    there = ["--dask", cluster.scheduler_address]
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        one, other = client.nthreads()
        client.run(lose_the_jail, workers=[one])
        found, told = results(mini_vllm, tmp_path / "there", a_class, *there)
        assert found == expected
        assert told.count("bubblewrap (bwrap) is not installed") == 1
        assert f"{one} grades nothing: no jail is available" in told
        client.run(lose_the_course, workers=[other])
    told = " ".join(mini_vllm("judge", *a_class, *OPTIONS[:-1], "another", *there, exit_code=2).output.split())
    assert f"{other} grades nothing: it does not have this course" in told
    assert f"no worker at {cluster.scheduler_address} can grade: " in told


def lose_the_jail() -> None:
    """Runs on a worker, and makes its programs disappear."""
    os.environ["PATH"] = "/nowhere"


def lose_the_course() -> None:
    sys.modules["mini_vllm_labs.classroom.judge.cluster_worker"] = None  # type: ignore[assignment]


def test_a_worker_with_another_course_refuses_work(
    mini_vllm: Commands, cluster: Any, a_class: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mini_vllm_labs.classroom.judge.cluster.course_digest", lambda: "newer")
    there = ("--no-jail", "--dask", cluster.scheduler_address)
    told = mini_vllm("judge", *a_class, *OPTIONS, *there, exit_code=2).output
    assert "its course, Python, torch or numpy differ from the judge's" in " ".join(told.split())
