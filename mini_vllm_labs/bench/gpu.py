"""Runs the checklist of `mini-vllm bench gpu`: one process and one results file per part, and one table."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

LIMIT_SECONDS = 480
AIM = 0.7  # share of the memory bandwidth that a decode kernel must reach on large inputs
# difference between two bfloat16 logits, relative to the largest: products with different shapes round differently
MAX_DIFFERENCE = 0.05
PARTS = {
    "equal": "20 greedy texts in float32, here and on the CPU",
    "graphs": "decode steps of 1 to 256 requests, from CUDA graphs and directly",
    "bandwidth": "the attention kernel in decodes, as a share of what copying reaches",
    "workload": "256 requests of 100 to 1,024 tokens in and out, temperature 0.6",
    "in-flight": "the same requests with a step in flight, which needs phase 8",
    "peer": "the same requests on transformers' continuous batching",
}
Row = tuple[str, str, bool]  # the quantity, its value, and whether that value is acceptable


def workload() -> list[TimedRequest]:
    """Draw the requests of nano-vLLM's benchmark the way nano-vLLM does."""
    rng = Random(0)
    prompts = [[rng.randint(0, 10_000) for _ in range(rng.randint(100, 1024))] for _ in range(256)]
    return [TimedRequest(0.0, str(n), prompt, rng.randint(100, 1024)) for n, prompt in enumerate(prompts)]


def chosen_parts(names: Sequence[str], folder: Path) -> list[str]:
    """Return the named parts or, if none are named, all parts that have no figures yet.

    Raises `ValueError` for unknown names.
    """
    for name in names:
        if name not in PARTS:
            raise ValueError(f"unknown part {name!r}: choose from {', '.join(PARTS)}")
    return [name for name in PARTS if name in names] or [name for name in PARTS if "figures" not in read(folder, name)]


def read(folder: Path, name: str) -> dict[str, Any]:
    """Return a part's record, which is empty if the part has not run."""
    path = folder / f"{name}.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record


def run_part(
    name: str, folder: Path, lineup: str, limit: float = LIMIT_SECONDS, module: str = "mini_vllm_labs.bench.gpu_parts"
) -> None:
    """Run a part in a process and record its figures or its error. After `limit` seconds, kill its process group."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, name, lineup],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        shown, errors = process.communicate(timeout=limit)
        why = [f"exit code {process.returncode}", *errors.strip().splitlines()][-1]
        record = {"error": why} if process.returncode else json.loads(shown.splitlines()[-1])
    except subprocess.TimeoutExpired:
        record = {"error": f"not done after {limit:g} seconds"}
    finally:  # also runs after Ctrl-C
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def rows(folder: Path) -> Iterable[Row]:
    """Yield the table's rows, which show the figures or the error of each part that has run."""
    records = {name: read(folder, name) for name in PARTS}
    for name, record in records.items():
        if "figures" in record:
            where, versions = record["device"], (record[what] for what in ("torch", "transformers", "lineup"))
            yield name, f"{where}; torch {{}}, transformers {{}}, lineup {{}}".format(*versions), True
            yield from rows_of(name, record["figures"], records["workload"].get("figures", {}))
        elif record:
            yield name, record["error"], False


def rows_of(name: str, figures: dict[str, Any], ours: dict[str, Any]) -> Iterable[Row]:
    """Yield the rows of one part.

    `ours` contains the figures of the part `workload`, and is empty if that part has not run.
    """
    rate = figures.get("output_tokens_per_second", 0.0)
    if name == "equal":
        equal, compared = figures["equal"]
        yield "texts equal to the CPU's", f"{equal} of {compared}", 0 < equal == compared
    elif name == "graphs":
        recorded, wanted, worst = figures["recorded"], figures["wanted"], max(figures["differences"].values())
        found = f"{len(recorded)} of {len(wanted)}, up to {recorded[-1]}"
        yield "batch sizes recorded as graphs", found, recorded == wanted
        yield "largest difference in a logit", f"{worst:.2%} of the largest logit", worst <= MAX_DIFFERENCE
    elif name == "bandwidth":
        yield "copying", f"{figures['copied'] / 1e9:,.0f} GB/s", True
        for batch_size, context, speed in figures["decodes"]:
            share, is_large = speed / figures["copied"], batch_size >= 32 and context >= 1024
            what = f"decode, batch {batch_size}, context {context:,}"
            yield what, f"{speed / 1e9:,.0f} GB/s, {share:.0%}", share >= AIM or not is_large
    elif name == "workload":
        replayed, decodes = figures["replayed"], figures["decodes"]
        yield "nano-vLLM's workload", f"{rate:,.0f} tokens/s", True
        yield "decode steps from graphs", f"{replayed:,} of {decodes:,}", 0 < replayed == decodes
    elif name == "in-flight":
        ratio = f", x{rate / ours['output_tokens_per_second']:.2f}" if ours else ""
        yield "with a step in flight", f"{rate:,.0f} tokens/s{ratio}", True
    else:
        ratio = f", x{ours['output_tokens_per_second'] / rate:.2f} on mini-vLLM" if ours else ""
        yield "transformers' continuous batching", f"{rate:,.0f} tokens/s{ratio}", True
