"""`mini-vllm bench scheduler --peer vllm`: starts the process with both schedulers, and shows what they cost."""

import json
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from statistics import median
from typing import Any

import typer
from rich.console import Console

from bench import peer_process
from bench.cli.announced import measuring
from bench.scheduler import CLOCK, NUM_ADMISSIONS, NUM_ROUNDS, SHARED_TOKENS
from course.terminal.charts import measured_bar
from course.terminal.console import fail
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import CHECKOUT, Lineup


def bench_beside_vllm(console: Console, lineup: Lineup, *, quick: bool, as_json: bool) -> None:
    """Measure both schedulers in one process, and show each result when it is there.

    Raises `ValueError` if vLLM's scheduler is not installed here, or the lineup cannot be compared with it.
    """
    if (reason := peer_process.why_missing(peer_process.VLLM)) is not None:
        raise ValueError(reason)
    if lineup.kv_cache == "absent":
        raise ValueError(f"lineup {lineup}: --peer vllm needs phase 2, as vLLM's memory comes in blocks, too")
    num_rounds, num_admissions = (2, 100) if quick else (NUM_ROUNDS, NUM_ADMISSIONS)
    cases = []
    with measuring("Importing vLLM", 10 if quick else 30) as report:
        for case in measured(lineup, num_rounds, num_admissions):
            cases.append(case)
            report("Measuring", found=f"{case['name']}: {case['ratio']:.2f} of vLLM's")
    if as_json:
        facts = {"lineup": str(lineup), "clock": f"time.{CLOCK}", "python": platform.python_version()}
        typer.echo(json.dumps({**facts, "num_admissions": num_admissions, "compared": cases}))
        return
    for case in cases:
        show(console, case)
    console.print(
        f"\nCPU microseconds per request, medians of {num_rounds} rounds in turns, in one process; then ours divided "
        f"by vLLM's, with its range. Decode and admission: schedule() and update_from_output(). Arrival: the request "
        f"is made of its tokens, hashed and queued. {num_admissions:,} are admitted in one step and share "
        f"{SHARED_TOKENS} cached tokens. vLLM's schedule() also writes the message to its workers; our runner gets "
        f"the requests themselves. Clock: time.{CLOCK}.",
        style=FAINT,
    )


def measured(lineup: Lineup, num_rounds: int, num_admissions: int) -> Iterator[dict[str, Any]]:
    """Yield each comparison when it is there, with ours over vLLM's round by round, and the median of these ratios.

    Ends the command with the last line of the process if that ends early.
    """
    command = [str(peer_process.VLLM_PYTHON), "-m", "bench.vllm_scheduler", str(lineup), f"{num_rounds}"]
    with (
        tempfile.TemporaryFile("w+") as stderr,  # a file: a pipe that is not read fills up
        subprocess.Popen(
            [*command, f"{num_admissions}"], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=CHECKOUT
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            case = json.loads(line)
            ratios = [ours / theirs for ours, theirs in zip(case["ours"], case["theirs"], strict=True)]
            yield {**case, "ratios": ratios, "ratio": median(ratios)}
        if process.wait() != 0:
            stderr.seek(0)
            last = stderr.read().strip().splitlines()[-1:] or ["nothing"]
            fail(f"the process with vLLM's scheduler exited early; its last line: {last[0][:500]}", 1)


def show(console: Console, case: dict[str, Any]) -> None:
    """Print a bar for each scheduler, and the ratio with its range."""
    ours, theirs, ratios = median(case["ours"]), median(case["theirs"]), case["ratios"]
    console.print(f"\n{case['name']}", style=STRONG, markup=False)
    figures = f"{ours:.2f} us, {case['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    console.print(measured_bar("mini-vLLM", ours, max(ours, theirs), figures, ours=True))
    console.print(measured_bar(case["peer"], theirs, max(ours, theirs), f"{theirs:.2f} us", ours=False))
