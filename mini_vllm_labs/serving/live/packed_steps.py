"""Stores an engine's last steps, pickled, in chunks that each begin with the state before their first step."""

from array import array
from collections import deque
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import NamedTuple

from mini_vllm.core.step_record import StepRecord

# Starting a new chunk takes a loop over the pool; looking back replays one chunk at most.
MAX_STEPS, STEPS_PER_CHUNK = 1000, 50


@dataclass
class Totals:
    """Counters over all of a server's steps."""

    ended: int = 0
    preemptions: int = 0
    hit_tokens: int = 0
    query_tokens: int = 0
    drafts: int = 0
    accepted: int = 0


class PackedStep(NamedTuple):
    """A step. A step whose record omits the block tables of requests that ran before; their new blocks extend the old
    tables.

    The record's `waiting_after` names only the first few waiting requests. `sampled` contains the tokens of the step
    whose results this step applied, and `lengths` contains the prompt lengths, in tokens, of the requests that arrived.
    """

    record: StepRecord
    sampled: dict[str, list[int]]
    lengths: dict[str, int]
    totals: Totals


class RequestSnapshot(NamedTuple):
    request_id: str
    num_prompt_tokens: int
    num_output_tokens: int
    num_computed_tokens: int
    blocks: list[int]


@dataclass
class Keyframe:
    """The state between two steps: the unfinished requests in order of arrival, the free queue, and the cache."""

    requests: list[RequestSnapshot]
    free_queue: "array[int]"
    cached: "array[int]"


@dataclass(frozen=True)
class Chunk:
    """Pickled consecutive steps, starting with number `first`, and the state before them; together they suffice to draw
    the steps."""

    first: int
    keyframe: bytes
    steps: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The number of the last step plus one."""
        return self.first + len(self.steps)


class StepChunks:
    """The last 1,000 to 1,050 steps, numbered from the server's start.

    The engine's thread writes them, and other threads read them.
    """

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._lock = Lock()
        self.num_steps = 0

    @property
    def oldest(self) -> int:
        """The number of the first stored step, or 0 if there are no steps."""
        with self._lock:
            return self._chunks[0].first if self._chunks else 0

    @property
    def needs_keyframe(self) -> bool:
        return not self._chunks or len(self._chunks[-1].steps) >= STEPS_PER_CHUNK

    def begin(self, keyframe: bytes) -> None:
        with self._lock:
            self._chunks.append(Chunk(self.num_steps, keyframe))
            while self.num_steps - self._chunks[0].first >= MAX_STEPS + STEPS_PER_CHUNK:
                self._chunks.popleft()

    def append(self, step: bytes) -> None:
        with self._lock:
            self._chunks[-1].steps.append(step)
            self.num_steps += 1

    def since(self, step: int) -> list[Chunk]:
        with self._lock:
            return [replace(chunk, steps=list(chunk.steps)) for chunk in self._chunks if chunk.end > step]
