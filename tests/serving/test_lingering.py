"""A close in two halves: what is written, thrown away, and when it ends."""

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from serving.connection import IDLE_SECONDS, LingeringTransport


class Clock:
    """Keeps what is to be called later, by its delay."""

    def __init__(self) -> None:
        self.waiting: dict[float, Callable[[], None]] = {}

    def call_later(self, seconds: float, function: Callable[[], None]) -> TimerHandle:
        self.waiting[seconds] = function
        handle = Mock(spec=TimerHandle)
        handle.cancel.side_effect = lambda: self.waiting.pop(seconds, None)
        return handle


@pytest.fixture
def inner() -> Any:
    return Mock(is_closing=Mock(return_value=False))


def test_a_client_that_sends_nothing_is_closed_at_once(inner: Any) -> None:
    transport = LingeringTransport(inner, Clock().call_later, 10.0)
    transport.write(b"answer")
    transport.close()
    inner.write.assert_called_once_with(b"answer")
    inner.close.assert_called_once_with()
    inner.write_eof.assert_not_called()


@pytest.mark.parametrize("ends_after", [IDLE_SECONDS, 10.0])
def test_a_client_that_still_sends_may_read_its_answer_first(inner: Any, ends_after: float) -> None:
    clock = Clock()
    transport = LingeringTransport(inner, clock.call_later, 10.0)
    transport.is_client_sending = True
    transport.write(b"answer")
    transport.close()
    transport.close()
    transport.write(b"more")
    inner.write.assert_called_once_with(b"answer")
    inner.write_eof.assert_called_once_with()
    inner.close.assert_not_called()
    assert transport.is_closing()
    assert transport.throws_away(b"body")
    assert clock.waiting.keys() == {IDLE_SECONDS, 10.0}
    clock.waiting[ends_after]()
    inner.close.assert_called_once_with()
    transport.stop()
    assert not clock.waiting
