"""Whatever a file does, the judge continues and awards the right points, and nothing changes outside the jail."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mini_vllm_labs.classroom.judge import memory_watch
from mini_vllm_labs.classroom.judge.grader import interrupted_after
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.probe import require_jail
from mini_vllm_labs.classroom.judge.results import SubmissionGrade
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.classroom.judge.worker import first_user
from tests.grading.checkout import ROOT, solution
from tests.judge.greedy import GREEDY, TOO_MUCH
from tests.judge.hostile import HOSTILE, LATE, MARK, Hostile

SECRET = "a-secret-seed-that-no-worker-reads"
WITHOUT_JAIL = [attack for attack in HOSTILE if not attack.is_for_jail and attack.message != LATE]


def grade(attack: Hostile, jail: Jail, port: int = 9, **names: str) -> SubmissionGrade:
    names |= {"PORT": str(port), "JUDGE": str(os.getpid()), "CHECKOUT": str(ROOT), "SECRET": SECRET}
    settings = JudgeSettings(SECRET, situations=1, seconds=0.5 if attack.message == LATE else 8, phases=(1,))
    judge = Judge(settings, jail)
    judge.groups = judge.groups[:2]  # one group that calls `clamp`, and one that never does
    return judge.grade(Submission(attack.name, {1: attack.text(**names).encode()}))


def check(attack: Hostile, graded: SubmissionGrade) -> None:
    (phase,) = graded.phases
    clamp, *others = phase["groups"]
    failure = graded.failures.get((1, clamp["title"]))
    if attack.message:
        assert failure is not None
        assert attack.message in failure.message
    else:
        assert failure is None, failure
    assert phase["error"] is None
    assert all(group["situations"] == ["right"] for group in others), "what clamp does must cost nothing else"


@pytest.mark.parametrize("attack", HOSTILE, ids=lambda attack: attack.name)
def test_an_attack_in_a_jail(attack: Hostile, jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SEED", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        check(attack, grade(attack, jail, server.getsockname()[1]))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert workers_left() == []
    assert [str(path) for folder in (ROOT, Path("/tmp"), Path("/")) for path in folder.glob(MARK)] == []


@pytest.mark.parametrize("attack", GREEDY, ids=lambda attack: attack.name)
def test_memory_and_the_machine_s_files_stay_out_of_reach(
    attack: Hostile, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, count = list[int](), memory_watch.held_bytes

    def counted(pid: int) -> int:
        held.append(count(pid))
        return held[-1]

    monkeypatch.setattr(memory_watch, "held_bytes", counted)
    with tempfile.NamedTemporaryFile(dir=Path(sys.base_prefix), prefix=MARK) as planted:
        os.chmod(planted.name, 0o644)
        check(attack, grade(attack, jail, PLANTED=planted.name, HOME=str(Path.home())))
    assert 0 < max(held) < memory_watch.MAX_HELD_BYTES


@pytest.mark.parametrize("attack", TOO_MUCH, ids=lambda attack: attack.name)
def test_a_worker_that_holds_too_much_is_ended(attack: Hostile, jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "MAX_HELD_BYTES", 2**27)
    check(attack, grade(attack, jail))


@pytest.mark.parametrize("attack", WITHOUT_JAIL, ids=lambda attack: attack.name)
def test_an_attack_without_a_jail_gains_nothing_either(attack: Hostile) -> None:
    check(attack, grade(attack, Jail()))


CROWD = """
def schedule_step(running, waiting, **others):
    from mini_vllm.core.step import SchedulerOutput
    running[:] = [*running, *waiting][:1] * 100_000
    return SchedulerOutput(10, {})
"""


def test_a_queue_of_any_length_is_refused_with_the_reason() -> None:
    judge = Judge(JudgeSettings(SECRET, situations=1, phases=(1,)), Jail())
    judge.groups = judge.groups[1:2]
    (failure,) = judge.grade(Submission("crowd", {1: (solution(1) + CROWD).encode()})).failures.values()
    assert "Your code returned too much: an answer of" in failure.message


def test_an_answer_cannot_keep_the_judge_busy() -> None:
    with pytest.raises(TimeoutError, match="still grading the submission"), interrupted_after(0.05):
        time.sleep(30)


def workers_left() -> list[str]:
    """Return the command lines of workers that are still running a second later."""
    left = list[str]()
    for _ in range(20):
        lines = [command_line(folder) for folder in Path("/proc").glob("[0-9]*")]
        left = [
            line
            for line in lines
            if "mini_vllm_labs.classroom.worker.inside" in line and line.split()[-1] in our_users()
        ]
        if not left:
            return []
        time.sleep(0.05)
    return left


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def our_users() -> set[str]:
    """Return the user ids from which this process assigns a different one to each worker."""
    return {str(number) for number in range(first_user(), first_user() + 1000)}


def test_a_jail_that_leaks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="the jail leaks: a submission could read the solutions"):
        require_jail(Jail())


def test_workers_die_with_the_judge(jail: Jail, tmp_path: Path) -> None:
    program = (
        "import sys, time; from mini_vllm_labs.classroom.judge.jail import *\n"
        "from mini_vllm_labs.classroom.judge.worker import *\n"
        "jail = find_jail(); files = SubmissionDir({1: open(sys.argv[1], 'rb').read()})\n"
        "worker = JailedWorker(files, jail, 1); worker.load(1)\n"
        "print(worker.process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    starter = tmp_path / "starter.py"
    starter.write_text(solution(1), encoding="utf-8")
    judge = subprocess.Popen([sys.executable, "-c", program, str(starter)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    pid = int(judge.stdout.readline())
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.05)
    pytest.fail("the worker is still running")
