"""Runs every benchmark, stores the JSON in docs/benchmarks/, and writes docs/benchmarks.md.

Run it as `python -m mini_vllm_labs.upkeep.benchmarks`.

`--only NAME` runs one benchmark and keeps the other records; `--render` writes the page from the existing records. To
get figures worth keeping, use a quiet machine, and first run `python -m mini_vllm_labs.upkeep.openvino_peer` and
`python -m mini_vllm_labs.upkeep.vllm_peer`.
"""

import argparse
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.peer_process import VLLM, why_missing
from mini_vllm_labs.upkeep.benchmarks.page import page

PAGE = CHECKOUT / "docs" / "benchmarks.md"
RECORDS = CHECKOUT / "docs" / "benchmarks"
# transformers takes minutes for each of this model's workloads, so it runs only one round; the axes are the embedded
# model's.
ONE_ROUND = ("--rounds", "1", "--batch", "none", "--temperature", "0")
RANDOM_MODEL = ("bench", "throughput", "--model", "random-150m", *ONE_ROUND)
RUNS: dict[str, tuple[str, ...]] = {
    "throughput-random-150m-float32": RANDOM_MODEL,
    "throughput-embedded-float32": ("bench", "throughput"),
    "throughput-random-150m-bfloat16": (*RANDOM_MODEL, "--dtype", "bfloat16"),
    "throughput-embedded-bfloat16": ("bench", "throughput", "--dtype", "bfloat16"),
    "busy": ("bench", "busy"),
    "prefix": ("bench", "prefix"),
    "chunked": ("bench", "chunked"),
    "preemption": ("bench", "preemption"),
    "speculative": ("bench", "speculative"),
    "async": ("bench", "async"),
    "sampling": ("bench", "sampling"),
    "serve-on-embedded": ("bench", "serve"),
    "serve-on-random-150m": (
        *("bench", "serve", "--model", "random-150m"),
        # At half a request per second, transformers takes 9 seconds to produce the first token for its longest prompts.
        *("--num-prompts", "20", "--probes", "4", "--rounds", "0", "--max-p99-ttft", "10000"),
    ),
    "scheduler": ("bench", "scheduler"),
    "beside-vllm": ("bench", "scheduler", "--peer", "vllm"),
    "calibrate": ("calibrate", "--check", "--rounds", "9"),
}
QUICK: dict[str, tuple[str, ...]] = {"scheduler": (), "calibrate": ("--requests", "20", "--rounds", "1")}
"""What makes a command quick, where it is not `--quick`."""

CAPABILITIES = {"AVX512": "AVX-512", "AVX2": "AVX2", "DEFAULT": "no vector extension that torch uses"}


def describe_machine() -> dict[str, Any]:
    """Return the facts that the figures depend on, without the machine's name."""
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "architecture": platform.machine(),
        "vectors": CAPABILITIES.get(capability, capability),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }


def run(name: str, quick: bool) -> None:
    """Run one benchmark and store its JSON. Raises `CalledProcessError` if the benchmark fails; its errors are on
    stderr.

    Without vLLM's scheduler, the comparison with it is skipped, and the existing record is kept.
    """
    if name == "beside-vllm" and (reason := why_missing(VLLM)) is not None:
        print(reason, file=sys.stderr)
        return
    command = [sys.executable, "-m", "mini_vllm_labs.cli", *RUNS[name], "--json"]
    if quick:
        command += QUICK.get(name, ("--quick",))
    print(f"{name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
    record = {**json.loads(done.stdout), "machine": describe_machine(), "quick": quick}
    (RECORDS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_records(folder: Path) -> dict[str, dict[str, object]]:
    """Return the existing records, in the page's order."""
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in RUNS
        if (path := folder / f"{name}.json").exists()
    }


def main() -> None:
    """Run the chosen benchmarks, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m mini_vllm_labs.upkeep.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=RUNS, action="append", help="run this one; may be repeated")
    parser.add_argument("--render", action="store_true", help="run nothing, write the page again")
    parser.add_argument("--quick", action="store_true", help="small workloads: does it work? No figures to keep")
    chosen = parser.parse_args()
    RECORDS.mkdir(exist_ok=True)
    for name in [] if chosen.render else chosen.only or RUNS:
        run(name, chosen.quick)
    PAGE.write_text(page(read_records(RECORDS), RECORDS / "gpu"), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(CHECKOUT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
