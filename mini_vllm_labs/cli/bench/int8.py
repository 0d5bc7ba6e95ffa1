"""`mini-vllm bench int8`: the benefits and costs of int8 weights."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.models import EMBEDDED, RANDOM
from mini_vllm_labs.bench.peer_process import chosen_peers
from mini_vllm_labs.cli.bench.measured import LOADING, run_cases
from mini_vllm_labs.cli.bench.throughput import numbers
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import ProgressReport

PEERS = ("xllamacpp", "openvino")


@friendly
def bench_int8(
    model: Annotated[
        str, typer.Option(help=f"'{RANDOM}' (random weights), '{EMBEDDED}', or the path of a model directory.")
    ] = RANDOM,
    batch: Annotated[str, typer.Option(metavar="A,B", help="Requests at once.")] = "1,16",
    peers: Annotated[
        str, typer.Option(metavar="A,B", help=f"Backends to compare with: {', '.join(PEERS)}; 'none'.")
    ] = ",".join(PEERS),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of every side, in turns, after a warm-up.")] = 5,
    compared: Annotated[int, typer.Option(min=1, help="Tokens whose choices are compared.")] = 5_000,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Decode with int8 and float32 weights on one thread, and compare their memory use and texts.

    Rates are tokens per CPU second. Both models then read stories that the embedded model wrote in float32. After each
    token of these stories, both models choose the next token.
    """
    team = lineup_to_run(lineup, make_console(stderr=as_json))
    if team.runner == "absent":
        raise ValueError(f"lineup {team}: bench int8 needs phase 6, which runs the real model")
    batch_sizes = [int(size) for size in numbers("--batch", batch, 1, is_whole=True)]
    chosen, facts, closing = chosen_peers(peers, PEERS), dict[str, Any](), list[str | Table]()

    def cases(report: ProgressReport) -> Iterator[Case]:
        from mini_vllm_labs.bench.int8 import Int8Plan, int8_cases, quality

        with tempfile.TemporaryDirectory() as folder:
            plan = Int8Plan(model, batch_sizes, chosen, rounds, compared, str(team))
            yield from int8_cases(plan, Path(folder), facts, report)
        report("the embedded model in both: comparing choices")
        found = quality(compared, team)
        plain, rounded = found.perplexities
        facts["quality"] = {"tokens": found.num_tokens, "equal": found.equal, "perplexities": [plain, rounded]}
        weights, resident = facts["weight_bytes"], facts["resident_bytes"]
        closing.extend(
            [
                memory_table(weights, resident),
                f"The embedded model, {found.num_tokens:,} tokens of stories it wrote: int8 chooses the same token "
                f"as float32 after {found.equal:.2%} of them; perplexity {plain:.3f} in float32, {rounded:.3f} in int8 "
                f"({rounded / plain - 1:+.2%}).",
                *(f"{name} is missing: {why}" for name, why in facts["missing"].items()),
            ]
        )

    seconds = 30 + 30 * len(chosen) + (1 + rounds) * (3 + len(chosen)) * len(batch_sizes) * 2
    run_cases(cases, lineup=team, seconds=seconds, as_json=as_json, text=LOADING, closing=closing, facts=facts)


def memory_table(weights: dict[str, int], resident: dict[str, int]) -> Table:
    """Return one row per side: MiB of its weights and of the process, and the weights' size relative to float32."""
    table = Table("Memory", "weights", "of float32's", "whole process", box=None)
    whole = next(iter(weights.values()))
    for name, size in resident.items():
        own = weights.get(name)
        share = [""] * 2 if own is None else [f"{own / 2**20:,.0f} MiB", f"{own / whole:.2f}"]
        table.add_row(name, *share, f"{size / 2**20:,.0f} MiB")
    return table
