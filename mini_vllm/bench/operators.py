"""What a forward pass is made of: our engine serves a workload once more, under torch's profiler."""

from collections.abc import Iterable, Sequence

from torch.profiler import ProfilerActivity, profile

from mini_vllm.bench.contender import Say, Settings
from mini_vllm.bench.ours import Ours
from mini_vllm.bench.requests import BenchRequest
from mini_vllm.bench.served import Served

KINDS = {
    "matrix products": ("_linear_pointwise", "addmm", "aten::mm", "aten::bmm"),
    "attention": ("scaled_dot_product",),
    "copies of K and V": ("index_select", "index_copy", "aten::index", "_index_put"),
}
REST = "everything else"


class Profiled:
    """Our engine as a contender that also tells what it was busy with. It is slower for that: compare no times."""

    def __init__(self, settings: Settings) -> None:
        self.ours = Ours(settings)
        self.facts = self.ours.facts

    def serve(self, requests: Sequence[BenchRequest], say: Say) -> Served:
        """Serve a round. Python's own time between two operators counts as `everything else`."""
        with profile(activities=[ProfilerActivity.CPU]) as found:
            served = self.ours.serve(requests, say)
        seconds = by_kind((event.key, event.self_cpu_time_total / 1e6) for event in found.key_averages())
        named = sum(seconds[kind] for kind in KINDS)
        served.seconds_by_operator = {**seconds, REST: max(seconds[REST], served.seconds - named)}
        return served


def by_kind(operators: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add up (operator, seconds)."""
    seconds = dict.fromkeys([*KINDS, REST], 0.0)
    for name, spent in operators:
        kind = next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), REST)
        seconds[kind] += spent
    return seconds
