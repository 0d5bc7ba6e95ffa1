"""A window over the last steps, written by the engine's thread and read by others."""

from collections import deque
from dataclasses import dataclass, field, replace
from threading import Lock

MAX_STEPS, STEPS_PER_CHUNK = 1000, 50


@dataclass(frozen=True)
class Chunk:
    """Steps in a row from number `first` on, and the state before the first of them, all pickled.

    The steps of a chunk can be drawn without any before them. `keyframe` is empty where the state is known.
    """

    first: int
    keyframe: bytes
    steps: list[bytes] = field(default_factory=list)

    def after(self, step: int) -> "Chunk":
        """Return the steps from `step` on, without a keyframe unless they are all there are."""
        if step <= self.first:
            return replace(self, steps=list(self.steps))
        return Chunk(step, b"", self.steps[step - self.first :])


class Chunks:
    """The last 1,000 to 1,050 steps, numbered from 0 over the life of the server."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._lock = Lock()
        self.num_steps = 0

    @property
    def oldest(self) -> int:
        """The number of the first step that is kept, 0 if there is none."""
        with self._lock:
            return self._chunks[0].first if self._chunks else 0

    @property
    def needs_keyframe(self) -> bool:
        """Whether the next step begins a chunk."""
        return not self._chunks or len(self._chunks[-1].steps) >= STEPS_PER_CHUNK

    def begin(self, keyframe: bytes) -> None:
        """Begin a chunk with the next step."""
        with self._lock:
            self._chunks.append(Chunk(self.num_steps, keyframe))
            while self.num_steps - self._chunks[0].first >= MAX_STEPS + STEPS_PER_CHUNK:
                self._chunks.popleft()

    def append(self, step: bytes) -> None:
        """Keep the next step."""
        with self._lock:
            self._chunks[-1].steps.append(step)
            self.num_steps += 1

    def since(self, step: int) -> list[Chunk]:
        """Return the steps from `step` on; all that are kept if `step` is not among them any more."""
        with self._lock:
            if self._chunks and step < self._chunks[0].first:
                step = self._chunks[0].first
            return [chunk.after(step) for chunk in self._chunks if chunk.first + len(chunk.steps) > step]
