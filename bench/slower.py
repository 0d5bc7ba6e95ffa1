"""Where mini-vLLM is slower than a peer: rates and latencies of a workload as ours against theirs, over 1 faster."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.plan import OURS, STREAM, WORKLOADS

Record = Mapping[str, Any]
STREAM_RATE = 0.98
"""In a stream no backend serves more than arrives: tokens/s within 2% count as equal, and latencies decide."""
RATE, BETWEEN = "tokens/s", "between tokens"
MEDIANS = {
    "first token": "time_to_first_token",
    BETWEEN: "inter_token_latency",
    "per token": "normalized_latency",
}


class Figure(NamedTuple):
    """One comparison: how many times faster ours is, and the least that counts as not slower."""

    words: str
    times: float
    aim: float

    @property
    def slower(self) -> bool:
        return self.times < self.aim


def figures_against(workload: str, entries: Record, peer: str) -> list[Figure]:
    """Return what counts in a workload: always tokens/s, in a stream three median latencies, in a batch one.

    With everything at once backends compute batches of different sizes, so latencies say little there.
    """
    ours, theirs = entries[OURS], entries[peer]
    in_stream = workload.startswith(STREAM)
    rate = ours["output_tokens_per_second"] / theirs["output_tokens_per_second"]
    medians = MEDIANS if in_stream else {} if workload in WORKLOADS else {BETWEEN: MEDIANS[BETWEEN]}
    return [
        Figure(RATE, rate, STREAM_RATE if in_stream else 1.0),
        *(Figure(words, theirs[name]["p50"] / ours[name]["p50"], 1.0) for words, name in medians.items()),
    ]
