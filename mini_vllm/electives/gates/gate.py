"""The base class of the scheduler's gates, and the gates for grammars and lookahead."""

from mini_vllm.core.request import Request, RequestStatus


class Gate:
    """The calls that a gate receives during a step. The base class is a gate that is always open.

    `reason` says why the gate skips a request or limits its tokens, using a name from `engine/reasons.py`.
    """

    reason = "adapters"  # the default matches phase 11's gate, so learners need not set it

    def start_step(self) -> None:
        """Drop the state of the last step."""

    def is_open(self, request: Request) -> bool:
        """Return whether a waiting request may be admitted in this step. Otherwise the request is skipped for now."""
        return True

    def may_limit(self, request: Request) -> bool:
        """Return whether `limit` can ever return fewer tokens than it receives."""
        return False

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return how many of the next `num_new_tokens` tokens, at least 1, a request may compute in this step."""
        return num_new_tokens

    def slots_allocated(self, request: Request) -> None:
        """Record that a request has its slots and is part of the plan."""

    def freed(self, request: Request) -> None:
        """Record that a request has lost its slots, because it was preempted or has ended."""

    def advanced(self, request: Request) -> None:
        """Update the gate, now that the request's planned tokens count as computed."""

    def processed(self, request: Request) -> None:
        """Update the gate when a step's output has arrived, before the request's tokens are applied."""

    def refused(self, request: Request) -> None:
        """Update the gate when too few blocks were free for a waiting request."""

    def give_up(self, request: Request) -> bool:
        """Release everything stored for a request, because no step can be planned; return whether anything was
        released."""
        return False


class GrammarGate(Gate):
    """Makes a request wait while its grammar is being compiled. (vLLM: WAITING_FOR_FSM.)"""

    reason = "grammar"

    def is_open(self, request: Request) -> bool:
        if request.grammar is None or request.status is not RequestStatus.WAITING_FOR_FSM:
            return True
        if not request.grammar.done():
            return False
        request.become_ready()
        return True


class LookaheadGate(Gate):
    """Ends a chunk either at the last known token, or at least `num_tokens` before it.

    (vLLM: `_reserve_prefill_lookahead`.)

    A drafter with several layers reads `num_tokens` tokens past a chunk, and would otherwise read guesses.
    """

    reason = "lookahead"

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens

    def may_limit(self, request: Request) -> bool:
        return True

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        num_left = request.num_tokens - num_computed_tokens - num_new_tokens
        is_too_near = 0 < num_left < self.num_tokens
        return max(0, num_new_tokens - self.num_tokens + num_left) if is_too_near else num_new_tokens


def failure_of(request: Request) -> str | None:
    """Return the error from compiling a request's grammar, or None if compiling succeeded or has not finished."""
    if request.grammar is None or not request.grammar.done():
        return None
    error = request.grammar.exception()
    return None if error is None else str(error)
