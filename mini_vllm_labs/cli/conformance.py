"""`mini-vllm conformance` compares an engine in any language with vLLM's recorded decisions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.release_rules import change, rules
from mini_vllm_labs.conformance.drive import ScenarioOutcome
from mini_vllm_labs.conformance.scenarios import DRAWN, Message
from mini_vllm_labs.conformance.suite import Options, run
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.pictures.terminal.differences import last_steps
from mini_vllm_labs.runs.parity.drawn import drawn_lines


@friendly
def conformance(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The engine's command, after --.", show_default=False)
    ] = None,
    release: Annotated[list[str] | None, typer.Option(help="Only this release: 0.13.0 or 0.33.0. Repeatable.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind, such as plain. Repeatable.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only this scenario. Repeatable.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fresh scenarios of kinds small and mixed, judged by the course's engine.")
    ] = None,
    traces: Annotated[
        list[Path] | None, typer.Option(help="A file of traces instead of the suite. Repeatable.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.")] = Options.timeout,
    jobs: Annotated[int, typer.Option(help="Processes of the engine at once.")] = Options.jobs,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    badge: Annotated[Path | None, typer.Option(help="Write the JSON of a shields.io badge here.")] = None,
) -> None:
    """Compare an engine in any language with the decisions of vLLM 0.13.0 and 0.33.0.

    The engine's command comes last, as in `mini-vllm conformance -- ./my-engine --flags`. The protocol page describes
    what the engine reads and writes. Exit code 0: all requested scenarios match. 1: a scenario differs or failed, or
    none was run. 2: a bad option, trace or greeting.
    """
    console = make_console()

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    def draw(verdict: ScenarioOutcome) -> None:
        if (first := verdict.difference) is not None:
            recorded = verdict.scenario.steps[: first.step + 1]
            console.print(last_steps("as recorded", recorded))  # type: ignore[arg-type]

    if seed is not None and kind and not set(kind) & set(DRAWN):
        raise ValueError(f"--seed {seed} works only with --kind small or mixed, got --kind {', '.join(kind)}")

    def draw_scenarios(releases: Sequence[str], kinds: Sequence[str]) -> Iterator[Message]:
        if not solutions_exist():
            raise ValueError(
                f"--kind {kinds[0]}: these scenarios need the reference, which this edition does not contain"
            )
        return drawn_lines(seed or 0, releases, kinds)

    kinds = kind or (DRAWN if seed is not None else ())
    paths = (release or (), kinds, traces or (), name or ())
    options = Options(*paths, timeout, jobs, junit, badge, draw_scenarios)
    named = {one.metadata["trace"]: f"{one.name}: {change(one.name)}" for one in rules()}
    if code := run(command or (), options, say, named, draw):
        raise typer.Exit(code)
