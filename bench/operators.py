"""What a forward pass is made of: a workload is served twice, the second time with a stopwatch on every operator.

Only the inside of the named operators is timed; what is left of an unwatched round is the rest.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from bench.contender import Say, Settings
from bench.ours import Ours
from bench.served import Served
from course.workloads.timed_request import TimedRequest

KINDS = {
    "matrix products": ("linear", "addmm", "aten.mm", "aten.bmm", "aten.matmul"),
    "attention": ("scaled_dot_product",),
    "copies of K and V": ("index_select", "index_copy", "aten.index.", "index_put"),
}
REST = "everything else"


class OperatorStopwatch(TorchDispatchMode):
    """While it is entered, adds up the seconds that each operator takes on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = perf_counter()
        result = operator(*args, **(kwargs or {}))
        self.seconds[str(operator)] += perf_counter() - start
        return result


class Profiled:
    """Our engine as a contender that also tells what it was busy with."""

    def __init__(self, settings: Settings) -> None:
        self.ours = Ours(settings)
        self.facts = self.ours.facts

    def serve(self, requests: Sequence[TimedRequest], say: Say) -> Served:
        """Serve a round, and one of the same lengths under the stopwatch.

        What the first took beyond the named operators of the second is `everything else`: the stopwatch itself costs
        some microseconds between two operators, so the second round as a whole says nothing.
        """
        served = self.ours.serve(requests, say)
        with OperatorStopwatch() as stopwatch:
            self.ours.serve(
                [replace(request, prompt_token_ids=request.prompt_token_ids[::-1]) for request in requests], say
            )
        served.seconds_by_operator = by_kind(stopwatch.seconds.items(), served.seconds)
        return served


def by_kind(operators: Iterable[tuple[str, float]], all_seconds: float) -> dict[str, float]:
    """Add up (operator, seconds) by what they do; what is left of `all_seconds` is the rest."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for name, spent in operators:
        for kind, parts in KINDS.items():
            if any(part in name for part in parts):
                seconds[kind] += spent
    return {**seconds, REST: max(0.0, all_seconds - sum(seconds.values()))}
