"""Tests how a test's process is started on a system that does not allow further processes."""

import os
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
import typer

from mini_vllm_labs.grading import children
from mini_vllm_labs.grading.children import fork_patiently
from mini_vllm_labs.pictures.terminal.console import friendly

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests run in forked processes")


def refuse() -> NoReturn:
    raise BlockingIOError(11, "Resource temporarily unavailable")


@pytest.mark.parametrize(("refused", "answer"), [(2, 7), (children.NUM_TRIES, None)])
def test_a_fork_that_is_refused_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, refused: int, answer: int | None
) -> None:
    answers: Iterator[Callable[[], int]] = iter([refuse] * refused + [lambda: 7])
    monkeypatch.setattr(children, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(os, "fork", lambda: next(answers)())
    assert fork_patiently() == answer


@pytest.mark.parametrize("error", [BlockingIOError(11, "busy"), RuntimeError("can't start new thread")])
def test_a_command_says_that_no_process_can_start(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    @friendly
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 1
    shown = capsys.readouterr()
    assert "lets no further process or thread start" in " ".join((shown.out + shown.err).split())
