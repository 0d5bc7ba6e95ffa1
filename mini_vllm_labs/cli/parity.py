"""`mini-vllm parity` replays recorded decisions of vLLM and compares them with this engine's."""

import gc
import zlib
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.differences import show_failure
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, enumeration, lineup_to_run
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.progress import counted, reported
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, PUBLIC_FILES, Scenario, read_scenarios
from mini_vllm_labs.runs.parity.verdict import ParityVerdict, judge, named_defects, require_complete
from mini_vllm_labs.runs.sandbox.explain import explain, place_in

MAX_SHOWN = 3


@friendly
def parity(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Default: the traces of the course.", show_default=False),
    ] = None,
    lineup: LineupText = None,
) -> None:
    """Replay recorded decisions of vLLM 0.13.0 and 0.33.0 and compare them, including block ids.

    Exit code 0: all traces in scope agree. Exit code 1: a trace differs, an invariant was violated, or no trace was in
    scope. Exit code 2: a file cannot be read, or the lineup lacks a phase that the recorded scheduler uses.
    """
    console = make_console()
    team = lineup_to_run(lineup, console, WHOLE_REFERENCE)
    require_scheduling_phases(team)
    console.print(whose_code(team), markup=False)
    paths = files or [*PUBLIC_FILES, *(NEWER_FILES if team.year != "absent" else ())]
    if not files and team.year == "absent":
        console.print("not replayed: the recordings of vLLM 0.33.0, which need phase 14", markup=False)
    scenarios = {path: load(path) for path in paths}
    everything = [scenario for path in paths for scenario in scenarios[path]]
    with reported("Replaying") as report:
        verdicts = [judge(scenario, team) for scenario in counted(everything, "Replaying traces", report)]
    by_release: dict[str, list[ParityVerdict]] = {}
    for verdict in verdicts:
        by_release.setdefault(verdict.scenario.release, []).append(verdict)
    for release, found in by_release.items():
        console.print(summary(found, release))
        if defects := Counter(name for one in found for name in sorted(named_defects(one.scenario))):
            named = ", ".join(f"{name} ({count})" for name, count in defects.most_common())
            console.print(f"defects of vLLM {release} that its traces name: {named}", markup=False)
        print_out_of_scope(console, found, team)
    failures = [verdict for verdict in verdicts if verdict.failed]
    show_failures(console, failures, num_compared=sum(verdict.outcome != "out of scope" for verdict in verdicts))
    empty = [path for path in paths if all(scenario.out_of_scope(team) for scenario in scenarios[path])]
    for path in empty:
        what = "no traces at all" if not scenarios[path] else "no trace in scope: nothing was compared"
        console.print(f"{path} has {what}.", markup=False, soft_wrap=True)
    if failures or empty:
        raise typer.Exit(1)
    for release, found in by_release.items():
        console.print(conclusion(release, found), soft_wrap=True)


def require_scheduling_phases(lineup: Lineup) -> None:
    """Raise `ValueError` if one of phases 1 to 5 is absent: the recorded scheduler uses all of them."""
    absent = [phase for phase in range(1, 6) if lineup[phase] == "absent"]
    if absent:
        others = "the reference's in their place (starter:1,solution:2-5), or " if solutions_exist() else ""
        raise ValueError(
            "nothing can be compared: the recorded scheduler uses phases 1 to 5, but this lineup lacks "
            f"{enumeration(absent)}. Use {others}`mini-vllm grade`, which grades the phases that you have"
        )


def load(path: Path) -> list[Scenario]:
    """Read a whole trace file; exit with 2 if the file is not a trace."""
    gc.disable()  # otherwise, the garbage collector would spend most of the time traversing hundreds of megabytes
    try:
        scenarios = list(read_scenarios(path))
        for scenario in scenarios:
            require_complete(scenario)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror or error}", 2)
    except (EOFError, zlib.error) as error:
        fail(f"{path} cannot be unpacked: {error}", 2)
    except UnicodeDecodeError as error:
        fail(f"{path} is not text: {error}", 2)
    except ValueError as error:
        fail(str(error) if str(path) in str(error) else f"{path}: {error}", 2)
    finally:
        gc.enable()
    return scenarios


def show_failures(console: Console, failures: list[ParityVerdict], num_compared: int) -> None:
    """Print the first differences in full and count the rest; print exceptions raised at the same place only once."""
    differing = [verdict for verdict in failures if verdict.cause is None]
    raised: dict[tuple[str, str], list[ParityVerdict]] = {}
    for verdict in failures:
        if verdict.cause is not None:
            raised.setdefault((type(verdict.cause).__name__, place_in(verdict.cause)), []).append(verdict)
    if len(raised) == 1 and len(failures) == num_compared > 1 and not differing:
        console.print("\nNothing could be compared: your engine raised the same in every trace.", style="bold")
    for (_, place), group in raised.items():
        show_failure(console, group[0])
        if place and group[0].cause is not None:
            console.print(explain(group[0].cause, {}), markup=False, soft_wrap=True)
        if len(group) > 1:
            console.print(f"The same in {len(group) - 1} more traces.")
    for verdict in differing[:MAX_SHOWN]:
        show_failure(console, verdict)
    if rest := differing[MAX_SHOWN:]:
        fields = Counter(verdict.difference.field for verdict in rest if verdict.difference is not None)
        found = ", ".join(f"{field} ({count})" for field, count in fields.most_common())
        console.print(f"\n{len(rest)} more traces differ, first in: {found}.", markup=False)


def summary(verdicts: list[ParityVerdict], release: str) -> Table:
    """Return a table with one row per kind of trace, and the totals."""
    table = Table(
        title=f"recorded from vLLM {release}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("kind")
    for heading in ("traces", "match", "differ", "defect-free", "broken", "out of scope"):
        table.add_column(heading, justify="right")
    kinds = list(dict.fromkeys(verdict.scenario.kind for verdict in verdicts))
    for kind in [*kinds, None] if len(kinds) != 1 else kinds:
        chosen = [verdict for verdict in verdicts if kind in (None, verdict.scenario.kind)]
        counts = [
            sum(verdict.outcome == outcome for verdict in chosen)
            for outcome in ("match", "differ", "free of defect", "broken", "out of scope")
        ]
        table.add_row(
            kind or "all", str(len(chosen)), *[str(n) if n else "-" for n in counts], style="bold" if not kind else ""
        )
    return table


def print_out_of_scope(console: Console, verdicts: list[ParityVerdict], lineup: Lineup) -> None:
    """Print which elective phases the out-of-scope traces use."""
    phases = [verdict.scenario.out_of_scope(lineup) for verdict in verdicts]
    for phase in dict.fromkeys(filter(None, phases)):
        count = phases.count(phase)
        console.print(f"out of scope, not compared: {count} traces, which need {phase}", markup=False)


def conclusion(release: str, verdicts: list[ParityVerdict]) -> str:
    num_matched = sum(verdict.outcome == "match" for verdict in verdicts)
    num_free = sum(verdict.outcome == "free of defect" for verdict in verdicts)
    text = f"vLLM {release}: {num_matched} of {num_matched} traces in scope: the same decisions, block for block."
    return text + (f" {num_free} more show a defect of vLLM: this engine kept its invariants." if num_free else "")
