"""A process that waits for a call: it serves one, ends with its owner, and is not used when the course has changed."""

import os
import time
from collections.abc import Iterator

import pytest

from course.fresh.process import in_fresh_process, start_process
from course.fresh.ready import ReadyProcess, saved_since
from course.sandbox.worker import Worker


class Started:
    """Starts processes and remembers them."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []

    def __call__(self) -> Worker:
        self.workers.append(start_process())
        return self.workers[-1]


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for worker in made.workers:
        worker.close()


def test_each_call_has_a_process_that_was_started_before(started: Started) -> None:
    ready = ReadyProcess(started)
    waiting = [started.workers[0].pid]
    assert in_fresh_process(os.getpid, start=ready.take) == waiting[0]
    waiting.append(started.workers[1].pid)
    assert in_fresh_process(os.getpid, start=ready.take) == waiting[1] != waiting[0]
    assert [worker.is_running for worker in started.workers] == [False, False, True]


def test_a_process_older_than_the_course_is_not_handed_out(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = ReadyProcess(started)
    monkeypatch.setattr("course.fresh.ready.saved_since", lambda moment: True)
    assert in_fresh_process(os.getpid, start=ready.take) == started.workers[1].pid
    assert not started.workers[0].is_running


def test_a_process_that_has_died_is_replaced(started: Started) -> None:
    ready = ReadyProcess(started)
    started.workers[0].kill()
    assert in_fresh_process(os.getpid, start=ready.take) == started.workers[1].pid


def test_the_waiting_process_ends_with_its_owner(started: Started) -> None:
    ready = ReadyProcess(started)
    in_fresh_process(os.getpid, start=ready.take)
    del ready
    assert not any(worker.is_running for worker in started.workers)


def test_files_of_the_course_that_are_loaded_have_a_time() -> None:
    assert saved_since(0)
    assert not saved_since(time.time() + 60)
