"""The operators of a forward pass: a workload is served twice, the second time with every operator timed.

Only the inside of the named operators is timed; the rest is what remains of the untimed round.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from bench.backend import BackendSettings, OnProgress
from bench.mini_vllm_backend import MiniVllmBackend
from bench.served import ServedRound
from course.workloads.timed_request import TimedRequest

KINDS = {
    "matrix products": ("linear", "addmm", "aten.mm", "aten.bmm", "aten.matmul"),
    "attention": ("scaled_dot_product",),
    "copies of K and V": ("index_select", "index_copy", "aten.index.", "index_put"),
}
REST = "everything else"


class OperatorStopwatch(TorchDispatchMode):
    """As a context manager, adds up the seconds that each operator takes on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = perf_counter()
        result = operator(*args, **(kwargs or {}))
        self.seconds[str(operator)] += perf_counter() - start
        return result


class ProfiledBackend:
    """mini-vLLM as a backend that also reports its seconds by operator."""

    def __init__(self, settings: BackendSettings) -> None:
        self.ours = MiniVllmBackend(settings)
        self.facts = self.ours.facts

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress) -> ServedRound:
        """Serve a round, then one of the same lengths with every operator timed.

        `everything else` is the first round minus the named operators of the second: the stopwatch itself costs
        microseconds between operators, so the total of the second round is not used.
        """
        served = self.ours.serve(requests, on_progress)
        with OperatorStopwatch() as stopwatch:
            self.ours.serve(
                [replace(request, prompt_token_ids=request.prompt_token_ids[::-1]) for request in requests], on_progress
            )
        served.seconds_by_operator = by_kind(stopwatch.seconds.items(), served.seconds)
        return served


def by_kind(operators: Iterable[tuple[str, float]], all_seconds: float) -> dict[str, float]:
    """Add up (operator, seconds) by kind; the remainder of `all_seconds` is the rest."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for name, spent in operators:
        for kind, parts in KINDS.items():
            if any(part in name for part in parts):
                seconds[kind] += spent
    return {**seconds, REST: max(0.0, all_seconds - sum(seconds.values()))}
