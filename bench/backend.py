"""One backend in its own process: it loads a model, then serves one round after another.

`python -m bench.backend NAME SETTINGS` exchanges JSON lines. It writes {"ready": {...}} when the
model is loaded; reads {"requests": [[prompt, num_output_tokens, arrival], ...]}; writes {"done": n} while it
works and {"served": {...}} at the end of the round. The OpenVINO peer uses the same protocol.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TextIO

from bench.served import Served
from course.workloads.timed_request import TimedRequest

OnProgress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all backends: a model directory (empty: the embedded model), dtype, threads, KV cache size."""

    model: str
    dtype: str = "float32"
    num_threads: int = 1
    kv_cache_tokens: int = 8192
    max_num_batched_tokens: int = 512
    max_num_seqs: int = 64
    lineup: str = "solution"
    num_served: int | None = None
    """Serve only the first few requests of a slow backend; None: all."""
    max_model_len: int | None = None
    """Most tokens of a request, for mini-vLLM only; None: the model's limit."""

    def for_whole_prompts(self, longest: int) -> "Settings":
        """Return the settings for a lineup without chunked prefill: the budget holds the longest request."""
        budget = max(longest, self.max_num_batched_tokens)
        return replace(self, max_num_batched_tokens=budget, max_model_len=longest)


class Backend(Protocol):
    """Serves requests greedily, each to its full length. `on_progress` receives the number of finished requests."""

    facts: dict[str, Any]

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress) -> Served: ...


def make_backend(name: str, settings: Settings) -> Backend:
    """Return a backend by its name. Raises `ValueError` for an unknown name."""
    if name == "mini-vllm":
        from bench.mini_vllm_backend import MiniVllmBackend

        return MiniVllmBackend(settings)
    if name == "mini-vllm-profiled":
        from bench.operators import ProfiledBackend

        return ProfiledBackend(settings)
    from bench.transformers_peers import Continuous, StaticBatches

    if name == "transformers-static":
        return StaticBatches(settings, batch_size=8)
    if name == "transformers-one-by-one":
        return StaticBatches(settings, batch_size=1)
    if name == "transformers-continuous":
        return Continuous(settings)
    raise ValueError(f"there is no backend {name!r}")


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def take_stdout() -> TextIO:
    """Return the real stdout for the protocol, and redirect prints of libraries to stderr."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


def main(name: str, settings_text: str) -> None:
    """Serve rounds until stdin ends."""
    out = take_stdout()
    settings = Settings(**json.loads(settings_text))
    import torch

    torch.set_num_threads(settings.num_threads)
    backend = make_backend(name, settings)
    torch.set_num_threads(settings.num_threads)  # loading a small model chooses one thread
    print(json.dumps({"ready": backend.facts}), file=out)
    for line in sys.stdin:
        parts = json.loads(line)["requests"][: settings.num_served]
        requests = [TimedRequest(arrival, str(n), prompt, length) for n, (prompt, length, arrival) in enumerate(parts)]
        served = backend.serve(requests, lambda count: print(json.dumps({"done": count}), file=out))
        served.peak_rss_bytes = peak_rss_bytes()
        print(json.dumps({"served": asdict(served)}), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
