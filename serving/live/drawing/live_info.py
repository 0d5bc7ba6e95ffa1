"""The constants of a run without an end, and the numbers of its requests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from course.palette import label
from course.traces.run_state import RunInfo


class Numbers:
    """Gives each request the smallest number that no other of its time has, and so its colour and its letter.

    A request keeps the number after its time, for whoever looks back.
    """

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self._in_use: set[str] = set()
        self._returned: list[int] = []
        self._num_given = 0

    def give(self, request_id: str) -> None:
        """Give a request a number if it has none."""
        if request_id in self.of:
            return
        self._in_use.add(request_id)
        if self._returned:
            self.of[request_id] = heappop(self._returned)
        else:
            self.of[request_id] = self._num_given
            self._num_given += 1

    def end_time_of(self, request_ids: Iterable[str]) -> None:
        """Let the numbers of some requests be given again."""
        for request_id in self._in_use.intersection(request_ids):
            self._in_use.remove(request_id)
            heappush(self._returned, self.of[request_id])

    def forget(self, request_ids: Iterable[str]) -> None:
        """Forget requests that no step of the window names."""
        self.end_time_of(request_ids)
        for request_id in request_ids:
            del self.of[request_id]


@dataclass(frozen=True)
class LiveInfo(RunInfo):
    """The constants of a server's engine. Requests come and go, and their numbers with them."""

    numbers: Numbers = field(default_factory=Numbers)

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "LiveInfo":
        """Return the constants of an engine without any requests yet."""
        names = ("num_blocks", "block_size", "token_budget", "prefix_caching")
        return cls({}, {}, **{name: facts[name] for name in names})

    def index(self, request_id: str) -> int:
        return self.numbers.of[request_id]

    def label(self, request_id: str) -> str:
        return label(self.index(request_id))

    def add(self, request_id: str, num_prompt_tokens: int) -> None:
        """Take in a request."""
        self.titles[request_id] = request_id
        self.num_prompt_tokens[request_id] = num_prompt_tokens
        self.numbers.give(request_id)

    def forget(self, request_ids: list[str]) -> None:
        """Let requests go that are in no step any more."""
        for request_id in request_ids:
            del self.titles[request_id], self.num_prompt_tokens[request_id]
        self.numbers.forget(request_ids)
