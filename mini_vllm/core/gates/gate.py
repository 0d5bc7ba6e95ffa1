"""One gate of the scheduler, and the two smallest: grammars and adapters."""

from mini_vllm.core.request import Request, RequestStatus


class Gate:
    """What the scheduler asks and tells a gate during a step. This one is always open."""

    def start_step(self) -> None:
        """Forget the last step."""

    def is_open(self, request: Request) -> bool:
        """Return whether a waiting request may be admitted in this step; if not, it is passed over."""
        return True

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Return how many of the next `num_new_tokens` tokens, at least 1, a request may compute in this step."""
        return num_new_tokens

    def slots_allocated(self, request: Request) -> None:
        """A request has got its slots and is part of the plan."""

    def freed(self, request: Request) -> None:
        """A request has lost its slots: it was preempted, or it has ended."""

    def advanced(self, request: Request) -> None:
        """The tokens of the plan count as computed."""


class GrammarGate(Gate):
    """A request waits while its grammar is being compiled. (vLLM: WAITING_FOR_FSM.)"""

    def is_open(self, request: Request) -> bool:
        if request.grammar is None or request.status is not RequestStatus.WAITING_FOR_FSM:
            return True
        if not request.grammar.done():
            return False
        request.become_ready()
        return True


def failure_of(request: Request) -> str | None:
    """Return why a request's grammar could not be compiled; None if it was, or still is being compiled."""
    if request.grammar is None or not request.grammar.done():
        return None
    error = request.grammar.exception()
    return None if error is None else str(error)


class AdapterGate(Gate):
    """At most `max_loras` different adapters in one step. (vLLM: `scheduled_loras` in `Scheduler.schedule`.)"""

    def __init__(self, max_loras: int) -> None:
        self.max_loras = max_loras
        self._adapter_of: dict[str, str] = {}

    def start_step(self) -> None:
        self._adapter_of = {}

    def is_open(self, request: Request) -> bool:
        adapters = set(self._adapter_of.values())
        return request.adapter_id is None or request.adapter_id in adapters or len(adapters) < self.max_loras

    def limit(self, request: Request, num_computed_tokens: int, num_new_tokens: int) -> int:
        # A running request that one step leaves out does not count in it, so that another adapter can be admitted. In
        # the next step both run, and vLLM 0.13.0 fails an assertion; here the later one waits for a step.
        return num_new_tokens if self.is_open(request) else 0

    def slots_allocated(self, request: Request) -> None:
        if request.adapter_id is not None:
            self._adapter_of[request.request_id] = request.adapter_id

    def freed(self, request: Request) -> None:
        self._adapter_of.pop(request.request_id, None)
