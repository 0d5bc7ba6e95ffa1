"""The errors that an engine raises, in addition to `ValueError`."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.invariants import leak_of
from mini_vllm.core.scheduler import Scheduler


class StalledError(RuntimeError):
    """Deadlock: every request with blocks is waiting for more, or has ended but its blocks are never reported as
    sent."""

    @classmethod
    def of(cls, scheduler: Scheduler) -> "StalledError":
        """Return the error for a scheduler that scheduled nothing, including that scheduler's numbers."""
        kv, leak = scheduler.kv, leak_of(scheduler)
        return cls(
            f"nothing was scheduled, although {len(scheduler.running)} requests run and "
            f"{len(scheduler.waiting)} wait: {kv.num_free_blocks} of {kv.num_usable_blocks} blocks are free"
            f"{leak and '. '}{leak}"
        )

    @classmethod
    def of_held(cls, held: Mapping[str, Sequence[int]]) -> "StalledError":
        """Return the error for blocks of ended requests that the worker side never reports as sent."""
        shown = "; ".join(f"{request_id}: {', '.join(map(str, blocks))}" for request_id, blocks in held.items())
        return cls(
            f"nothing runs and no transfer is under way, but the KV blocks of {len(held)} ended requests are held, "
            f"because `finished_sending` never named them ({shown}). Their blocks are free again now"
        )


class RunnerError(RuntimeError):
    """A runner returned an output that does not match its batch."""


class ShuttingDownError(RuntimeError):
    """The engine accepts no more requests."""


class EngineDeadError(RuntimeError):
    """The engine's thread or process has stopped."""


class RequestIdInUseError(ValueError):
    """The id already belongs to an unfinished request."""

    @classmethod
    def of(cls, request_id: str) -> "RequestIdInUseError":
        return cls(f"request_id {request_id!r} belongs to an unfinished request; give each its own")


class ContextLengthError(ValueError):
    """Prompt plus `max_tokens` exceeds `max_total_tokens`, the limit of the model or of the whole cache."""

    def __init__(self, message: str, num_prompt_tokens: int, max_tokens: int, max_total_tokens: int) -> None:
        super().__init__(message, num_prompt_tokens, max_tokens, max_total_tokens)  # pickling needs all arguments
        self.num_prompt_tokens, self.max_tokens = num_prompt_tokens, max_tokens
        self.max_total_tokens = max_total_tokens

    def __str__(self) -> str:
        return str(self.args[0])


class QueueFullError(ValueError):
    """`max_num_waiting` requests are already waiting. Try again after some requests have been admitted."""
