"""One contender in a process of its own: it loads a model, then serves one round after the other.

`python -m bench.contender NAME SETTINGS` speaks JSON lines. It writes {"ready": {...}} when the
model is there; reads {"requests": [[prompt, num_output_tokens, arrival], ...]}; writes {"done": n} while it
works and {"served": {...}} at the end of the round. The OpenVINO peer speaks the same lines.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TextIO

from bench.served import Served
from course.workloads.timed_request import TimedRequest

Say = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all contenders are given: a model directory (empty: the embedded model), a dtype, threads, and room."""

    model: str
    dtype: str = "float32"
    num_threads: int = 1
    kv_cache_tokens: int = 8192
    max_num_batched_tokens: int = 512
    max_num_seqs: int = 64
    lineup: str = "solution"
    num_served: int | None = None
    """Serve only the first few requests, because the contender is slow; None: all."""
    max_model_len: int | None = None
    """Most tokens of a request, for our engine only; None: as many as the model can."""

    def for_whole_prompts(self, longest: int) -> "Settings":
        """Return the settings for a lineup that cannot cut prompts: a step has room for the longest request."""
        budget = max(longest, self.max_num_batched_tokens)
        return replace(self, max_num_batched_tokens=budget, max_model_len=longest)


class Contender(Protocol):
    """Something that serves requests greedily, each to its full length. `say` hears how many are done."""

    facts: dict[str, Any]

    def serve(self, requests: Sequence[TimedRequest], say: Say) -> Served: ...


def make_contender(name: str, settings: Settings) -> Contender:
    """Return a contender by its name. Raises `ValueError` for one that does not exist."""
    if name == "mini-vllm":
        from bench.ours import Ours

        return Ours(settings)
    if name == "mini-vllm-profiled":
        from bench.operators import Profiled

        return Profiled(settings)
    from bench.transformers_peers import Continuous, StaticBatches

    if name == "transformers-static":
        return StaticBatches(settings, batch_size=8)
    if name == "transformers-one-by-one":
        return StaticBatches(settings, batch_size=1)
    if name == "transformers-continuous":
        return Continuous(settings)
    raise ValueError(f"there is no contender {name!r}")


def peak_rss_bytes() -> int:
    """Return the most memory this process has held."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def take_stdout() -> TextIO:
    """Return the real stdout for our lines alone; what libraries print goes to stderr from now on."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


def main(name: str, settings_text: str) -> None:
    """Serve rounds until stdin ends."""
    out = take_stdout()
    settings = Settings(**json.loads(settings_text))
    import torch

    torch.set_num_threads(settings.num_threads)
    contender = make_contender(name, settings)
    torch.set_num_threads(settings.num_threads)  # loading a small model chooses one thread
    print(json.dumps({"ready": contender.facts}), file=out)
    for line in sys.stdin:
        parts = json.loads(line)["requests"][: settings.num_served]
        requests = [TimedRequest(arrival, str(n), prompt, length) for n, (prompt, length, arrival) in enumerate(parts)]
        served = contender.serve(requests, lambda count: print(json.dumps({"done": count}), file=out))
        served.peak_rss_bytes = peak_rss_bytes()
        print(json.dumps({"served": asdict(served)}), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
