"""One backend in its own process: it loads a model, then serves one round after another.

`python -m mini_vllm_labs.bench.backend_process NAME SETTINGS` exchanges JSON lines. The process writes {"ready": {...}}
when the model is loaded. For each round, the process reads {"requests": [[prompt, num_output_tokens, arrival], ...],
"load": {...}}, writes {"done": n} while it works, and {"served": {...}} at the end. Each backend imports only the
libraries it needs, because `.venv-openvino` has few of them and peak memory is one of the figures.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TextIO

from mini_vllm_labs.bench.backend import Backend, BackendSettings, Load
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


def make_backend(name: str, settings: BackendSettings) -> Backend:
    """Build the backend `name`. Raises `ValueError` for an unknown name."""
    if name == "openvino":
        from mini_vllm_labs.bench.openvino_backend import OpenVino

        return OpenVino(settings)
    if name == "llama-cpp":
        from mini_vllm_labs.bench.llama_cpp_backend import LlamaCpp

        return LlamaCpp(settings)
    if name == "xllamacpp":
        from mini_vllm_labs.bench.xllamacpp_backend import LlamaCppServer

        return LlamaCppServer(settings)
    from mini_vllm_labs.bench.mini_vllm_backend import MiniVllmBackend, ProfiledBackend
    from mini_vllm_labs.bench.transformers_peers import Continuous, StaticBatches

    makers: dict[str, Callable[[BackendSettings], Backend]] = {
        "mini-vllm": MiniVllmBackend.open,
        "mini-vllm-profiled": ProfiledBackend,
        "transformers-static": partial(StaticBatches, batch_size=8),
        "transformers-one-by-one": partial(StaticBatches, batch_size=1),
        "transformers-continuous": Continuous,
    }
    if name not in makers:
        raise ValueError(f"unknown backend {name!r}")
    return makers[name](settings)


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "linux":  # `ru_maxrss` starts from the parent's memory use at the time of the fork
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS reports bytes


def take_stdout() -> TextIO:
    """Return the real stdout for the protocol, and redirect everything that libraries print to stderr."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)  # line-buffered: the parent waits for each line
    os.dup2(2, 1)
    return ours


def main(name: str, settings_text: str) -> None:
    """Serve rounds until stdin ends."""
    out = take_stdout()
    settings = BackendSettings(**json.loads(settings_text))
    backend = make_backend(name, settings)
    gc.collect()
    gc.freeze()  # as in our server: stops the garbage collector from traversing the model in every round
    print(json.dumps({"ready": backend.facts}), file=out)
    for line in sys.stdin:
        message = json.loads(line)
        parts = message["requests"][: settings.num_served]
        requests = [TimedRequest(arrival, str(n), prompt, length) for n, (prompt, length, arrival) in enumerate(parts)]
        started, load = time.process_time(), Load(**message["load"])
        served = backend.serve(requests, lambda count: print(json.dumps({"done": count}), file=out), load)
        served.cpu_seconds, served.peak_rss_bytes = time.process_time() - started, peak_rss_bytes()
        print(json.dumps({"served": asdict(served)}), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
