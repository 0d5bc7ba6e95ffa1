"""One gate of the scheduler, and the smallest: grammars."""

from mini_vllm.core.request import Request, RequestStatus


class Gate:
    """What the scheduler asks and tells a gate during a step. This one is always open."""

    def start_step(self) -> None:
        """Forget the last step."""

    def is_open(self, request: Request) -> bool:
        """Return whether a waiting request may be admitted in this step; if not, it is passed over."""
        return True

    def may_limit(self, request: Request) -> bool:
        """Return whether `limit` may ever be less than the tokens that it is asked about."""
        return False

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return how many of the next `num_new_tokens` tokens, at least 1, a request may compute in this step."""
        return num_new_tokens

    def slots_allocated(self, request: Request) -> None:
        """A request has got its slots and is part of the plan."""

    def freed(self, request: Request) -> None:
        """A request has lost its slots: it was preempted, or it has ended."""

    def advanced(self, request: Request) -> None:
        """The tokens of the plan count as computed."""

    def processed(self, request: Request) -> None:
        """The output of a step with the request has come; its tokens are not applied yet."""

    def refused(self, request: Request) -> None:
        """A waiting request has got no blocks."""

    def give_up(self, request: Request) -> bool:
        """Nothing can be planned: let go of what is kept for a request; return whether anything was."""
        return False


class GrammarGate(Gate):
    """A request waits while its grammar is being compiled. (vLLM: WAITING_FOR_FSM.)"""

    def is_open(self, request: Request) -> bool:
        if request.grammar is None or request.status is not RequestStatus.WAITING_FOR_FSM:
            return True
        if not request.grammar.done():
            return False
        request.become_ready()
        return True


class LookaheadGate(Gate):
    """No chunk ends fewer than `num_tokens` tokens before the last one known. (vLLM: `_reserve_prefill_lookahead`.)

    A drafter with several layers reads that far ahead of a chunk, and would read guesses instead.
    """

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens

    def may_limit(self, request: Request) -> bool:
        return True

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        num_left = request.num_tokens - num_computed_tokens - num_new_tokens
        is_too_near = 0 < num_left < self.num_tokens
        return max(0, num_new_tokens - self.num_tokens + num_left) if is_too_near else num_new_tokens


def failure_of(request: Request) -> str | None:
    """Return why a request's grammar could not be compiled; None if it was, or still is being compiled."""
    if request.grammar is None or not request.grammar.done():
        return None
    error = request.grammar.exception()
    return None if error is None else str(error)
