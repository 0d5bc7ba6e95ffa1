"""A worker whose program misbehaves: its parent gets every message, accepts nothing else, and never gets stuck."""

import os
import sys
import time
from pathlib import Path

import pytest

from mini_vllm_labs.runs.sandbox.channel import ChannelError
from mini_vllm_labs.runs.sandbox.worker import WorkerProcess

TAKE = "import os, sys, time; from mini_vllm_labs.runs.sandbox.channel import take_stdio; c = take_stdio()\n"
SECONDS = 30.0
MALFORMED = ("b'x' * 10**7", "b'[' * 10**5", "b'[1]'", "b'{\"n\": NaN}'")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the programs use fork and signals")


def worker(program: str, *, max_bytes: int = 2**20, has_channel: bool = True) -> WorkerProcess:
    command = [sys.executable, "-c", TAKE + program if has_channel else program]
    return WorkerProcess(command, max_bytes=max_bytes, has_channel=has_channel)


def failure(child: WorkerProcess) -> str:
    with pytest.raises(ChannelError) as caught:
        child.receive(SECONDS)
    return caught.value.reason


def test_an_answer_comes_back_and_output_is_kept_apart() -> None:
    with worker("print('hello'); c.send({'twice': 2 * c.receive()['n']}); print(input())") as child:
        child.send({"n": 21})
        assert child.receive(SECONDS) == {"twice": 42}
        assert failure(child) == "closed"
        assert child.output.startswith("hello\n")
        assert "EOFError" in child.output


@pytest.mark.parametrize(
    "content",
    ["b'{\"forged\": 1}\\n'", "c._mark + b'{\"n\": '", *(f"c._mark + {text}" for text in MALFORMED)],
    ids=["no mark", "cut short", "long", "deep", "list", "NaN"],
)
def test_a_malformed_message_is_refused_once_and_spoils_no_other(content: str) -> None:
    with worker(
        f"m = memoryview(b'\\n' + {content})\nwhile m: m = m[os.write(c._write_fd, m):]\nc.send({{}})"
    ) as child:
        assert failure(child) == "malformed"
        assert child.receive(SECONDS) == {}


def test_a_flood_of_messages_waits_in_the_pipe() -> None:
    with worker("while True: c.send({'text': 'x' * 10**5})") as child:
        time.sleep(0.3)
        assert child._inbox.qsize() <= child._inbox.maxsize
        assert len(child.receive(SECONDS)["text"]) == 10**5


def test_a_flood_of_output_is_cut_in_the_middle() -> None:
    with worker("print('first', '-' * 10**7, 'last')") as child:
        assert failure(child) == "closed"
        assert child.output.startswith("first ---")
        assert child.output.endswith("--- last\n")
        assert len(child.output) < 5000
        assert "bytes left out" in child.output


def test_a_process_that_does_not_answer_is_late() -> None:
    with worker("time.sleep(60)") as child:
        child.deadline = time.monotonic() + 0.3
        assert failure(child) == "timeout"
        assert child.is_running


def test_a_process_that_does_not_read_cannot_block_its_parent() -> None:
    with worker("time.sleep(60)") as child:
        child.deadline = time.monotonic() + 1
        with pytest.raises(ChannelError, match="is not reading its input"):
            child.send({"text": "x" * 10**6})


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with worker("c.receive()") as child, pytest.raises(ValueError, match="at most 1,048,576"):
        child.send({"text": "x" * 2**20})


def test_a_child_that_holds_the_pipe_open_does_not_hide_the_end() -> None:
    with worker("if os.fork() == 0: time.sleep(60)\nelse: c.send({'n': 1})") as child:
        assert child.receive(SECONDS) == {"n": 1}
        assert failure(child) == "closed"
        assert child.status == 0


def test_its_children_end_and_its_folder_is_deleted() -> None:
    with worker("pid = os.fork()\nif pid: c.send({'pid': pid})\ntime.sleep(60)") as child:
        grandchild, folder = child.receive(SECONDS)["pid"], child.folder
        assert folder.is_dir()
    assert not folder.exists()
    until = time.monotonic() + SECONDS
    while Path(f"/proc/{grandchild}/cmdline").exists() and Path(f"/proc/{grandchild}/cmdline").read_bytes():
        assert time.monotonic() < until, "the grandchild lives on"
        time.sleep(0.01)


def test_without_a_channel_stdout_is_output() -> None:
    with worker(
        "import sys; print('out'); print('error', file=sys.stderr); print(sys.stdin.read())", has_channel=False
    ) as child:
        assert child.wait(SECONDS)
        assert (child.status, set(child.output.split())) == (0, {"out", "error"})
