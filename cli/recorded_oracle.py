"""`mini-vllm oracle` without a reference: your decisions beside those recorded from vLLM 0.13.0."""

import typer
from rich.console import Console

from course.parity.by_phase import ALWAYS, ParityComparison, comparable, compare_until_failure
from course.parity.replay import ScenarioReplay
from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from course.parity.verdict import ParityVerdict
from course.sandbox.explain import explain
from course.starter_status import written_phases
from course.terminal.console import fail
from course.terminal.differences import last_steps, show_failure
from course.terminal.learner_lineup import enumeration
from course.terminal.options import chosen_phases
from course.terminal.progress import counted, reported
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import Impl

TRACES = ("named.jsonl", "random.jsonl.gz")


def compare_with_recordings(phases: str | None, console: Console) -> None:
    """Compare the learner's phases with the traces that need no other; exit with 1 at the first difference."""
    chosen = phases_to_compare(phases)
    impls: list[Impl] = ["starter" if phase in chosen else "absent" for phase in range(1, 6)]
    lineup = Lineup(*impls)
    everything = [scenario for name in TRACES for scenario in read_scenarios(PUBLIC_TRACES / name)]
    scenarios = comparable(everything, lineup)
    console.print(
        f"yours: phases {enumeration(chosen)}; beside them the {len(scenarios)} recorded traces of vLLM 0.13.0 that "
        f"need no other phase",
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
    show(result, result.failure, lineup, console)
    raise typer.Exit(1)


def phases_to_compare(phases: str | None) -> list[int]:
    """Return the phases of the option, or those that are written. Raises `ValueError` without phases 1 and 2."""
    chosen = [phase for phase in (written_phases() if phases is None else chosen_phases(phases, 5)) if phase <= 5]
    if not set(chosen) >= ALWAYS:
        given = "those written so far" if phases is None else f"--phase {phases}"
        raise ValueError(
            f"nothing can be compared with {given}: recorded decisions have block ids, which phases 1 and 2 decide "
            f"together; give 1-2, 1-3, 1-4 or 1-5, or write both first"
        )
    return chosen


def show(result: ParityComparison, failure: ParityVerdict, lineup: Lineup, console: Console) -> None:
    """Print the first difference, the steps up to it on both sides, and the phases to look at."""
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
