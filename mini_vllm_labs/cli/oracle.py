"""`mini-vllm oracle` shows the first step in which your decisions diverge from the right ones.

The right decisions are the reference's or, if there is no reference, those recorded from vLLM 0.13.0.
"""

from typing import Annotated

import typer
from rich.console import Console

from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.assembly.parts import Impl, solutions_exist
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console
from mini_vllm_labs.pictures.terminal.differences import last_steps, show_failure, side_by_side
from mini_vllm_labs.pictures.terminal.learner_lineup import enumeration
from mini_vllm_labs.pictures.terminal.options import chosen_phases
from mini_vllm_labs.pictures.terminal.progress import counted, reported
from mini_vllm_labs.runs.oracle.divergence import (
    NUM_SEEDS,
    REFERENCE,
    find_culprit,
    search,
    settings_for,
    workload_for,
)
from mini_vllm_labs.runs.parity.by_phase import ALWAYS, ParityComparison, comparable, compare_until_failure
from mini_vllm_labs.runs.parity.replay import ScenarioReplay
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES, read_scenarios
from mini_vllm_labs.runs.parity.verdict import ParityVerdict
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.starter_status import written_electives, written_phases

CORE_PHASES = 5
COMPARED_PHASES = (1, 2, 3, 4, 5, 7, 8, 11)  # the phases that make decisions in the search's workloads
DEFAULT = "1-5" if solutions_exist() else "what is written"
TRACES = ("named.jsonl", "random.jsonl.gz")


@friendly
def oracle(
    phase: Annotated[str | None, typer.Option(metavar="K or K-M", help=f"Your phases. Default: {DEFAULT}.")] = None,
    seed: Annotated[int | None, typer.Option(help=f"Seed of one workload. Default: {NUM_SEEDS} workloads.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests per workload.")] = 10,
) -> None:
    """Show the first step in which your decisions differ from the right ones.

    The command also names the phase that causes the difference. If the solutions exist, both lineups run the same
    workloads. Your lineup replaces the reference's phases 1 to 5, and its electives 7, 8 and 11. Without solutions,
    your phases 1 to 5 replay those recorded steps of vLLM that need no other phase; the other options have no effect.

    Exit code 1: a decision differs. The engine runs the fake model, so phase 6 is not compared.
    """
    console = make_console()
    if not solutions_exist():
        compare_with_recordings(phase, console)
        return
    phase = phase or f"1-{CORE_PHASES}"
    mine, reference = lineup_with_starters(phase), parse_lineup(REFERENCE)
    seeds = range(NUM_SEEDS) if seed is None else [seed]
    yours = [number for number in COMPARED_PHASES if mine[number] == "starter"]
    names = f"phase{'s' * (len(yours) > 1)} {enumeration(yours)}"
    console.print(f"compared: {names}; all others that decide here are the reference's", soft_wrap=True)
    try:
        with reported("Comparing") as report:
            found = search(counted(seeds, "Comparing workloads", report), requests, mine, reference)
    except NotImplementedError as error:
        fail(cannot_compare(mine, error), 1)
    if found is None:
        workloads = f"{len(seeds)} workloads" if len(seeds) > 1 else f"the workload of seed {seeds[0]}"
        console.print(f"The same decisions in every step, block for block, on {workloads}.")
        return
    seed, divergence = found
    if divergence.error is None:
        heading = f"the first difference is in step {divergence.step}"
    elif divergence.step == 0:
        heading = "nothing can be compared, because your engine raised in its first step"
    else:
        heading = f"the same decisions up to step {divergence.step}, in which your engine raised"
    console.print(f"\nseed {seed}: {heading}", style="bold")
    if divergence.error is not None:
        console.print(explain(divergence.error, {}), markup=False, soft_wrap=True)
    for title, records in (("reference", divergence.reference), ("yours", divergence.mine)):
        if len(records) > divergence.step:
            console.print(last_steps(title, records))
    if divergence.error is None:
        console.print(side_by_side(divergence))
    arrivals, config = workload_for(seed, requests), settings_for(seed)
    with reported("Looking for the phase that causes it"):
        culprits = find_culprit(arrivals, config, mine, reference)
    if culprits:
        names = " or ".join(str(number) for number in culprits)
        console.print(f"With the reference's phase {names} in place of yours the difference disappears.")
    console.print(f"To repeat: mini-vllm oracle --phase {phase} --seed {seed} --requests {requests}", markup=False)
    raise typer.Exit(1)


def lineup_with_starters(phases: str) -> Lineup:
    """Return the reference lineup, with starters for the compared phases in `phases`. Raises `ValueError`."""
    try:
        chosen = chosen_phases(phases, COMPARED_PHASES[-1])
    except ValueError:
        chosen = range(0)
    # A range may include a phase that makes no decisions here, but must not begin or end with one.
    if not chosen or not {chosen[0], chosen[-1]} <= set(COMPARED_PHASES):
        raise ValueError(
            f"--phase {phases}: the oracle compares decisions, which only phases 1 to 5, 7, 8 and 11 make; name one of "
            "these, or a range such as 1-3"
        )
    lineup = parse_lineup(REFERENCE)
    for number in COMPARED_PHASES:
        if number in chosen:
            lineup = lineup.with_phase(number, "starter")
    return lineup


def cannot_compare(mine: Lineup, error: NotImplementedError) -> str:
    """Return which of the chosen phases are unwritten, and the command that compares the written ones."""
    chosen = [phase for phase in COMPARED_PHASES if mine[phase] == "starter"]
    written = written_phases() + written_electives()
    missing = enumeration([phase for phase in chosen if phase not in written] or chosen)
    commands = [f"`mini-vllm oracle --phase {phase}`" for phase in chosen if phase in written]
    return (
        f"nothing can be compared yet: {error} is not written, and the oracle needs whole phases. "
        f"Phases to finish: {missing}." + (f" You can compare: {', '.join(commands)}." if commands else "")
    )


def compare_with_recordings(phases: str | None, console: Console) -> None:
    """Compare the learner's phases with the traces that need no other phase; exit with 1 at the first difference."""
    chosen = phases_to_compare(phases)
    impls: list[Impl] = ["starter" if phase in chosen else "absent" for phase in range(1, CORE_PHASES + 1)]
    lineup = Lineup(*impls)
    everything = [scenario for name in TRACES for scenario in read_scenarios(PUBLIC_TRACES / name)]
    scenarios = comparable(everything, lineup)
    console.print(
        f"compared: phases {enumeration(chosen)}; beside them the {len(scenarios)} recorded traces of vLLM 0.13.0 that "
        "need no other phase",
        soft_wrap=True,
    )
    try:
        with reported("Replaying") as report:
            result = compare_until_failure(counted(scenarios, "Replaying traces", report), lineup)
    except NotImplementedError as error:
        fail(f"nothing can be compared yet: {error} is not written, and the oracle needs whole phases", 1)
    if result.failure is None:
        console.print(f"The same decisions in every step, block for block, in {len(scenarios)} traces.")
        return
    show_recorded(result, result.failure, lineup, console)
    raise typer.Exit(1)


def phases_to_compare(phases: str | None) -> list[int]:
    """Return the phases that the option names or, by default, the written ones. Raises `ValueError` unless they include
    phases 1 and 2."""
    given = written_phases() if phases is None else chosen_phases(phases, CORE_PHASES)
    chosen = [phase for phase in given if phase <= CORE_PHASES]
    if not set(chosen) >= ALWAYS:
        asked = "those written so far" if phases is None else f"--phase {phases}"
        raise ValueError(
            f"nothing can be compared with {asked}: phases 1 and 2 together determine the recorded block ids; use 1-2, "
            "1-3, 1-4 or 1-5, or write both phases first"
        )
    return chosen


def show_recorded(result: ParityComparison, failure: ParityVerdict, lineup: Lineup, console: Console) -> None:
    """Print the first difference, both sides' steps up to it, and which phases to check."""
    show_failure(console, failure)
    if failure.cause is not None:
        console.print(explain(failure.cause, {}), markup=False, soft_wrap=True)
    if failure.difference is not None and failure.difference.step < len(failure.scenario.steps):
        num_steps, replay = failure.difference.step + 1, ScenarioReplay(failure.scenario, lineup)
        mine = [replay.run_step(number) for number in range(num_steps)]
        recorded = failure.scenario.steps[:num_steps]
        console.print(last_steps("vLLM", recorded))  # type: ignore[arg-type]
        console.print(last_steps("yours", mine))
    agreed = f"{len(result.agreed)} traces that need no more phases agree. " if result.agreed else ""
    phases = f"phase{'s' * (len(result.suspects) > 1)} {enumeration(result.suspects)}"
    console.print(f"{agreed}Look first at {phases}.", soft_wrap=True)
