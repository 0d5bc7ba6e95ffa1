"""Writes the feedback for a learner: points per group, and each group's first failed situation."""

from collections.abc import Mapping
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mini_vllm.assembly.lineup import ALL_NAMES
from mini_vllm_labs.classroom.judge.results import Outcome, PhaseResult, SubmissionGrade, is_written
from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.classroom.worker.text import one_line
from mini_vllm_labs.pictures.terminal.differences import last_steps, side_by_side

WIDTH = 100
MAX_LINES = 40


def feedback(grade: SubmissionGrade, *, jailed: bool) -> str:
    """Return the text for one submission; its first line shows the name and points."""
    page = Console(file=StringIO(), width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    found = grade.result()
    page.print(Text(f"{grade.name}: {found['points']:g} of {found['max']} points"))
    if not jailed:
        page.print("Graded without isolation (--no-jail).")
    for line in filter(None, [grade.error, *grade.notes]):
        page.print(Text(line))
    for phase in grade.phases:
        show_phase(page, phase, grade.failures)
    show_together(page, grade)
    text = page.file
    assert isinstance(text, StringIO)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def show_phase(page: Console, phase: PhaseResult, failures: Mapping[tuple[int, str], Outcome]) -> None:
    """Print a phase: its groups, then each group's first failed situation."""
    page.print()
    number = phase["phase"]
    page.print(f"Phase {number}, {ALL_NAMES[number - 1]}: {phase['points']:g} of {phase['max']} points")
    if phase["error"]:
        show_text(page, phase["error"])
        return
    if not is_written(phase):
        page.print("  not written yet")
        return
    for group in phase["groups"]:
        points, statuses = f"{group['points']:g}/{group['max']}", group["situations"]
        page.print(f"  {points:>6}  {group['title']} ({statuses.count('right')} of {len(statuses)} right)")
    for group in phase["groups"]:
        if (failure := failures.get((number, group["title"]))) is not None:
            page.print()
            page.print(f"  [{group['title']}]")
            show_outcome(page, failure)


def show_together(page: Console, grade: SubmissionGrade) -> None:
    """Print whether the phases work together in one engine; this earns no points, because mistakes have already cost
    some."""
    if not grade.together:
        return
    page.print()
    phases = f"Phases 1 to {grade.together_up_to}" if grade.together_up_to > 1 else "Phase 1"
    failure = next((outcome for outcome in grade.together if outcome.status != "right"), None)
    if failure is None:
        page.print(f"{phases} in one engine: every step has the reference's decisions.")
        return
    page.print(f"{phases} in one engine: not every step has the reference's decisions yet.")
    show_outcome(page, failure)


def show_outcome(page: Console, outcome: Outcome) -> None:
    """Print the failure, the situation, and both sides' steps."""
    show_text(page, outcome.message)
    if outcome.scenario is not None:
        page.print(settings_line(outcome.scenario))
        page.print(arrivals_table(outcome.scenario))
    if (found := outcome.divergence) is not None:
        page.print(last_steps("reference", found.reference))
        page.print(last_steps("yours", found.mine))
        page.print(side_by_side(found))


def show_text(page: Console, text: str) -> None:
    """Print text from the learner's code without control characters, shortened if it is long."""
    lines = [one_line(line) for line in text.splitlines()]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], "..."]
    for line in lines:
        page.print(Text(f"  {line}"))


def settings_line(scenario: EngineScenario) -> str:
    config = scenario.config
    assert config.num_gpu_blocks is not None
    settings = [
        f"budget={config.max_num_batched_tokens}",
        f"max_num_seqs={config.max_num_seqs}",
        f"threshold={config.long_prefill_token_threshold or 'off'}",
        f"{config.num_gpu_blocks - 1} blocks of {config.block_size}",
        f"max_model_len={config.max_model_len}",
        f"policy={config.policy}",
        f"caching={'on' if config.enable_prefix_caching else 'off'}",
        f"chunking={'on' if config.enable_chunked_prefill else 'off'}",
    ]
    if config.admission_guard:
        settings.append("guard=on")
    return "  " + "  ".join(settings)


def arrivals_table(scenario: EngineScenario) -> Table:
    aborts = {request_id: step for step, request_id in scenario.aborts}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    has_priority = any(new.priority for new in scenario.arrivals)
    has_tenants = any(new.cache_salt or new.adapter_id for new in scenario.arrivals)
    headings = ["request", "step", "prompt tokens", "max_tokens"]
    headings += ["priority"] * has_priority + ["salt", "adapter"] * has_tenants + ["aborted before step"] * bool(aborts)
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    for new in scenario.arrivals:
        cells = [new.request_id, str(new.arrival_step), str(len(new.prompt_token_ids)), str(new.max_tokens)]
        cells += [str(new.priority)] * has_priority
        cells += [new.cache_salt or "-", new.adapter_id or "-"] if has_tenants else []
        cells += [str(aborts.get(new.request_id, "-"))] if aborts else []
        table.add_row(*cells)
    return table
