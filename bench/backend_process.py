"""One backend in its own process: it loads a model, then serves one round after another.

`python -m bench.backend_process NAME SETTINGS` exchanges JSON lines. It writes {"ready": {...}} when the
model is loaded; reads {"requests": [[prompt, num_output_tokens, arrival], ...]}; writes {"done": n} while it
works and {"served": {...}} at the end of the round. The OpenVINO peer uses the same protocol.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import TextIO

import torch

from bench.backend import Backend, Settings
from bench.mini_vllm_backend import MiniVllmBackend
from bench.operators import ProfiledBackend
from bench.transformers_peers import Continuous, StaticBatches
from course.workloads.timed_request import TimedRequest


def make_backend(name: str, settings: Settings) -> Backend:
    """Return a backend by its name. Raises `ValueError` for an unknown name."""
    match name:
        case "mini-vllm":
            return MiniVllmBackend(settings)
        case "mini-vllm-profiled":
            return ProfiledBackend(settings)
        case "transformers-static":
            return StaticBatches(settings, batch_size=8)
        case "transformers-one-by-one":
            return StaticBatches(settings, batch_size=1)
        case "transformers-continuous":
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
