"""`mini-vllm bench throughput`: whole workloads beside what a user would run instead."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bench.cli.throughput_view import show
from bench.peer_process import BACKENDS, PeerError, embedded_model_path
from bench.plan import OURS, Plan
from bench.requests import FULL, QUICK
from bench.results import Results, as_record
from bench.throughput import run_throughput, seconds_by_operator
from course.terminal.console import fail, friendly, make_console
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import AsJson, LineupText, Threads, threads_to_use
from course.terminal.progress import Report, reported
from course.terminal.step_view import FAINT
from course.workloads.fallbacks import whole_prompts

if TYPE_CHECKING:
    from bench.models import ModelSize
    from bench.roofline import MachineRates

RANDOM = "random-150m"


@friendly
def bench_throughput(
    model: Annotated[
        str, typer.Option(help=f"'embedded', '{RANDOM}' (random weights), or the path of a model directory.")
    ] = "embedded",
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 64,
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"Backends to compare with: {', '.join(BACKENDS[1:])}; 'none'.")
    ] = ",".join(BACKENDS[1:]),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the fastest of each backend counts.")] = 2,
    threads: Threads = None,
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="Type of weights and KV cache.")] = "float32",
    lineup: LineupText = None,
    quick: Annotated[bool, typer.Option("--quick", help="12 short requests, one round: a trial run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve chats and documents on mini-vLLM and its peers.

    Many short chats and a few long documents.

    All at once, then as a stream; last, one round of questions that share a document.

    Each backend has its own process and the same requests, threads and KV cache size; rounds are taken in turns.
    """
    names = (OURS, *chosen_peers(peers))
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: throughput needs phase 6, which runs the real model")
    with tempfile.TemporaryDirectory() as folder:
        console.print(f"Model: {model}, {dtype}. Loading torch ...", style=FAINT, markup=False)
        directory, size = open_model(model, Path(folder))
        plan = Plan(
            directory,
            size.vocab_size,
            min(requests, 12) if quick else requests,
            1 if quick else rounds,
            threads_to_use(threads),
            names,
            dtype,
            str(team),
            QUICK if quick else FULL,
        )
        if team.chunking == "absent":
            console.print(whole_prompts(plan.settings().max_num_batched_tokens))
        try:
            with reported("Starting the backends") as report:
                results = run_throughput(plan, Parts(report, plan))
            with reported("Measuring where the time goes (the last part)"):
                explained = efficiency_of_ours(plan, results)
        except PeerError as error:
            fail(str(error), 1)
        record = {
            "model": model,
            "num_parameters": size.num_parameters,
            **as_record(plan, results),
            **explained,
        }
    if as_json:
        typer.echo(json.dumps(record))
    else:
        show(console, record)


def chosen_peers(text: str) -> list[str]:
    """Parse `--peers`. Raises `ValueError` for an unknown name."""
    names = [] if text == "none" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in BACKENDS[1:]:
            raise ValueError(f"--peers {name}: choose from {', '.join(BACKENDS[1:])}, or 'none'")
    return names


def open_model(model: str, folder: Path) -> "tuple[Path, ModelSize]":
    """Return a model's directory and size. Raises `ValueError` if there is no model."""
    from bench.models import model_size, save_random_model

    directory = embedded_model_path() if model == "embedded" else Path(model)
    if model == RANDOM:
        directory = save_random_model(folder / RANDOM)
    if not (directory / "config.json").exists():
        raise ValueError(f"--model {model}: there is no config.json in {directory}; or use 'embedded' or '{RANDOM}'")
    return directory.resolve(), model_size(directory)


def efficiency_of_ours(plan: Plan, results: Results) -> dict[str, Any]:
    """Return mini-vLLM's share of the roofline by workload, and the seconds by operator."""
    from bench.efficiency import efficiency, machine_rates

    rates: MachineRates = machine_rates(plan.dtype, plan.num_threads)
    explained = {
        workload: efficiency(entries[OURS].served, plan.model, plan.dtype, rates)
        for workload, entries in results.entries.items()
    }
    return {"explained": explained, "seconds_by_operator": seconds_by_operator(plan)}


class Parts:
    """Counts the parts of a plan and reports each with its number: loading, then the rounds of every backend."""

    def __init__(self, report: Report, plan: Plan) -> None:
        num_rounds = 2 * plan.num_rounds + 1  # all at once, as a stream; one round of questions
        self._report, self._total = report, len(plan.backends) * (1 + num_rounds)
        self._number, self._last = 0, ("", "", 0)

    def __call__(self, workload: str, name: str, count: int, done: int) -> None:
        if (workload, name) != self._last[:2] or done < self._last[2]:
            self._number += 1
        self._last = (workload, name, done)
        self._report(f"part {self._number} of {self._total}, {workload}: {name}", done, count)
