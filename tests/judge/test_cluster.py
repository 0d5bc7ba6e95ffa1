"""A class on a Dask cluster: the same points, only on workers that passed the test of the jail."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from classroom.judge.class_run import ClassRun
from classroom.judge.cluster import Cluster, ClusterError, code_digest, why_unfit
from classroom.judge.grading_process import GraderError
from classroom.judge.jail import Jail, JailError
from classroom.judge.record import Record, Result
from classroom.judge.settings import Settings
from cli.main import app
from mini_vllm.assembly.lineup import CHECKOUT
from tests.grading.checkout import solution
from tests.judge.test_class_run import SETTINGS, graded, handed_in


@contextmanager
def dask(name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `dask scheduler` or `dask worker` as a teacher would."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()  # a worker that is asked to end first waits for the submission that it grades
        process.wait(30)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler and one worker of two threads."""
    scheduler = f"tcp://127.0.0.1:{free_port()}"
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", scheduler.rpartition(":")[2], "--no-dashboard"),
        dask("worker", scheduler, "--nthreads", "2", "--no-dashboard", "--no-nanny"),
    ):
        yield scheduler


def cluster_at(address: str, settings: Settings = SETTINGS) -> Cluster:
    """Connect as soon as the worker is there."""
    deadline = time.monotonic() + 90
    while True:
        try:
            return Cluster(address, settings)
        except ClusterError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def without_time(results: dict[str, Result]) -> dict[str, Result]:
    return {name: {**result, "seconds": 0.0} for name, result in sorted(results.items())}


def test_a_cluster_grades_as_this_machine_does(address: str, tmp_path: Path) -> None:
    wrong = solution(1).replace("min(", "max(", 1)
    found = handed_in(tmp_path, ada=solution(1), bob=wrong, eve="import os; os.abort()", max="raise ValueError(1)")
    cluster, record = cluster_at(address), Record(SETTINGS)
    try:
        graders = cluster.graders()
        assert len(graders) == 2
        results = dict(ClassRun(SETTINGS, record, graders).results(found))
    finally:
        cluster.close()
    assert without_time(results) == without_time(graded(found))
    assert results["ada"]["summary"]["points"] == 40
    assert 0 < results["bob"]["summary"]["points"] < 40
    assert set(record.results) == set(results)


def test_the_workers_of_a_cluster_grade_in_the_jail(address: str, jail: Jail, tmp_path: Path) -> None:
    assert jail.is_a_jail
    settings = replace(SETTINGS, jailed=True)
    (secret := tmp_path / "secret").write_text("the teacher's")
    condition = f"os.path.exists({str(secret)!r}) or os.getuid() < 10**6"
    spies = f"{solution(1)}\nimport os\nif {condition}: raise OSError('free')\n"
    found = handed_in(tmp_path, spy=spies)
    cluster = cluster_at(address, settings)
    try:
        results = dict(ClassRun(settings, Record(settings), cluster.graders()).results(found))
    finally:
        cluster.close()
    assert results["spy"]["summary"]["points"] == 40, results["spy"]["feedback"]


def test_the_command_takes_a_scheduler(address: str, tmp_path: Path) -> None:
    cluster_at(address).close()
    (ada,) = handed_in(tmp_path, ada=solution(1))
    options = ["--no-jail", "--phase", "1", "--situations", "1", "--dask", address]
    told = CliRunner().invoke(app, ["judge", str(ada.path), *options])
    assert told.exit_code == 0, told.output
    assert "40/40" in told.stdout
    refused = CliRunner().invoke(app, ["judge", str(ada.path), *options, "--jobs", "2"])
    assert (refused.exit_code, "--jobs is for this machine" in refused.output) == (2, True)


def test_no_scheduler_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("classroom.judge.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(ClusterError, match="no scheduler answers there"):
        Cluster(f"tcp://127.0.0.1:{free_port()}", SETTINGS)


def test_a_scheduler_without_workers_is_said() -> None:
    port = free_port()
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"),
        pytest.raises(ClusterError, match="the cluster has no workers"),
    ):
        Cluster(f"tcp://127.0.0.1:{port}", SETTINGS)


def test_a_worker_with_another_checkout_or_without_a_jail_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaks(jail: object) -> None:
        raise JailError("the jail leaks")

    monkeypatch.setattr("classroom.judge.cluster.require_jail", leaks)
    monkeypatch.setattr("classroom.judge.cluster.find_jail", lambda: None)
    assert why_unfit(code_digest(), jailed=False) == ""
    assert why_unfit(code_digest(), jailed=True) == "the jail leaks"
    assert "not in the state of this one" in why_unfit("0" * 64, jailed=False)


def test_an_unfit_worker_stops_the_run_before_it_starts(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_at(address).close()
    monkeypatch.setattr("classroom.judge.cluster.code_digest", lambda: "0" * 64)
    with pytest.raises(ClusterError, match=r"worker tcp://.* cannot grade: its checkout is not in the state"):
        Cluster(address, SETTINGS)


def test_a_cluster_that_is_gone_costs_no_result(tmp_path: Path) -> None:
    (ada,) = handed_in(tmp_path, ada=solution(1))
    scheduler = f"tcp://127.0.0.1:{free_port()}"
    with dask("scheduler", "--host", "127.0.0.1", "--port", scheduler.rpartition(":")[2], "--no-dashboard"):
        with dask("worker", scheduler, "--nthreads", "1", "--no-dashboard", "--no-nanny"):
            cluster = cluster_at(scheduler)
        record = Record(SETTINGS)
        results = dict(ClassRun(SETTINGS, record, cluster.graders()).results([ada]))
        cluster.close()
    assert "lost its workers" in str(results["ada"]["summary"]["error"])
    assert record.results == {}


def test_what_is_given_up_is_not_waited_for(address: str, tmp_path: Path) -> None:
    (slow,) = handed_in(tmp_path, slow="import time\ntime.sleep(20)\n")
    cluster = cluster_at(address)
    try:
        grader = cluster.graders()[0]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(grader.grade, grader.read(slow))
            time.sleep(1)
            assert not waiting.done()
            start = time.monotonic()
            grader.end()
            with pytest.raises(GraderError, match="could not be graded"):
                waiting.result(10)
            assert time.monotonic() - start < 10
        with pytest.raises(GraderError, match="no longer graded"):
            grader.grade(grader.read(slow))
    finally:
        cluster.close()
