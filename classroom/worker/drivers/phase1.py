"""What is done with phase 1's functions outside of an engine."""

from typing import Any

from classroom.worker.drivers.attempt import Result
from mini_vllm.core.absent import SlotReservation
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput


def clamp(file: Any, cases: list[tuple[int, int, int]]) -> Result:
    """Call `clamp` for each case."""
    return [file.clamp(*case) for case in cases]


class FreeLog(SlotReservation):
    """A KV cache manager that only records which requests are freed."""

    def __init__(self) -> None:
        super().__init__(100, 100)
        self.freed: list[list[str | int]] = []

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.freed.append([request.request_id, num_computed_tokens])


def update_from_output(file: Any, max_model_len: int, cases: list[Any]) -> Result:
    """Apply sampled tokens, case by case: see `apply_tokens`."""
    return [apply_tokens(file, max_model_len, *case) for case in cases]


def apply_tokens(
    file: Any,
    max_model_len: int,
    requests: list[Request],
    planned: list[int],
    sampled: dict[str, list[int]],
    finished: list[int],
) -> Result:
    """Apply a step's tokens; return the tokens kept, the running and the freed requests, and every request's tokens."""
    kv, running = FreeLog(), list(requests)
    step = SchedulerOutput(10, {f"r{number}": 1 for number in planned})
    alive = {request.request_id: request for request in requests if int(request.request_id[1:]) not in finished}
    kept = file.update_from_output(step, sampled, alive, running, max_model_len=max_model_len, kv=kv)
    states = [[list(request.all_token_ids), int(request.status), request.stop_reason] for request in requests]
    outputs = [[name, list(tokens)] for name, tokens in kept.items()]
    return [outputs, [request.request_id for request in running], kv.freed, states]
