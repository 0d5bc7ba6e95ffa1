"""The class as one page of HTML, for the teacher: what was handed in, what was lost where, and what to teach again."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from pathlib import Path
from statistics import median

from classroom.judge.results import ClassResults, GroupResult, PhaseResult, SubmissionResult, is_written
from classroom.worker.text import one_line
from mini_vllm.assembly.lineup import ALL_NAMES

STYLE = Path(__file__).with_suffix(".css")
BINS = ("none", "up to 25%", "up to 50%", "up to 75%", "below 100%", "all")
GROUP_HEADINGS = (
    '<thead><tr><th scope="col">Group of situations</th><th scope="col" colspan="2">Missed</th>'
    '<th scope="col">By learners</th></tr></thead>'
)


@dataclass(frozen=True)
class GroupFigures:
    """A group: how many learners lost points in it, and the share of their situations that was not right."""

    title: str
    num_played: int
    num_lost: int
    missed: float


@dataclass(frozen=True)
class PhaseFigures:
    """A phase. `bins` are the numbers of learners by their share of the points, of those who wrote it."""

    number: int
    max: int
    num_learners: int
    num_written: int
    num_broken: int
    median: float
    bins: list[int]
    groups: list[GroupFigures]

    @property
    def most_missed(self) -> GroupFigures | None:
        """The group with the largest share of situations that were not right; None if all were."""
        worst = max(self.groups, key=lambda group: group.missed, default=None)
        return worst if worst is not None and worst.missed > 0 else None


def figures(results: ClassResults) -> list[PhaseFigures]:
    return [phase_figures(same) for same in zip(*(one["phases"] for one in results.submissions), strict=True)]


def phase_figures(phases: Sequence[PhaseResult]) -> PhaseFigures:
    """Return the figures of one phase, from its result for each learner."""
    written = [phase for phase in phases if is_written(phase)]
    points, most = [phase["points"] for phase in written], phases[0]["max"]
    binned = [bin_of(one / most) for one in points]
    return PhaseFigures(
        number=phases[0]["phase"],
        max=most,
        num_learners=len(phases),
        num_written=len(written),
        num_broken=sum(bool(phase["error"] and phase["sha256"]) for phase in phases),
        median=median(points) if points else 0.0,
        bins=[binned.count(number) for number in range(len(BINS))],
        groups=[group_figures(same) for same in zip(*(phase["groups"] for phase in written), strict=True)],
    )


def group_figures(groups: Sequence[GroupResult]) -> GroupFigures:
    situations = [status for group in groups for status in group["situations"]]
    missed = sum(status != "right" for status in situations)
    num_lost = sum(group["points"] < group["max"] for group in groups)
    return GroupFigures(groups[0]["title"], len(groups), num_lost, missed / len(situations))


def bin_of(share: float) -> int:
    """Return the bin of a share of the points: none and all have bins for themselves."""
    return len(BINS) - 1 if share == 1 else ceil(4 * share)


def class_page(results: ClassResults, *, with_names: bool) -> str:
    """Return the page. It holds no seed, and names only if they are asked for."""
    phases = figures(results)
    count = len(results.submissions)
    isolation = "isolated" if results.jailed else "NOT isolated"
    facts = f"{results.per_group} situations in each group, {isolation}."
    body = [
        f"<h1>{count} submission{'s' * (count != 1)}</h1>",
        f'<p class="faint">{facts} A group of situations is missed where a decision differs from the reference.</p>',
        f'<ul class="headlines">{"".join(f"<li>{line}</li>" for line in headlines(phases))}</ul>',
        *map(section, phases),
        *([names_table(results.submissions)] if with_names and results.submissions else []),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Class results</title>'
    head += f"<style>{STYLE.read_text(encoding='utf-8')}</style>"
    text = "\n".join(body)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def headlines(phases: list[PhaseFigures]) -> list[str]:
    """Return the phase that lost most points and the group that was missed most, as sentences."""
    found = []
    hardest = min((one for one in phases if one.num_written), key=lambda one: one.median / one.max, default=None)
    if hardest is not None and hardest.median < hardest.max:
        found.append(
            f"Most points were lost in <strong>{title(hardest)}</strong>: "
            f"the median is {hardest.median:g} of {hardest.max}."
        )
    missed = [(phase, worst) for phase in phases if (worst := phase.most_missed) is not None]
    if missed:
        phase, group = max(missed, key=lambda pair: pair[1].missed)
        found.append(
            f"Missed most: <strong>{escape(group.title)}</strong> in phase {phase.number}, "
            f"{percent(group.missed)} of its situations, by {group.num_lost} of {group.num_played} learners."
        )
    return found or ["No points were lost." if any(phase.num_written for phase in phases) else "Nothing was written."]


def section(phase: PhaseFigures) -> str:
    """Return a phase: how many handed it in, the spread of points, and its groups."""
    facts = [f"written by {phase.num_written} of {phase.num_learners}"]
    facts += [f"{phase.num_broken} could not be loaded"] if phase.num_broken else []
    facts += (
        [f"median {phase.median:g} of {phase.max}", f"{phase.bins[-1]} with full marks"] if phase.num_written else []
    )
    header = f'<header><h2>{title(phase)}</h2><span class="faint">{", ".join(facts)}</span></header>'
    if not phase.num_written:
        return f"<section>{header}</section>"
    worst = phase.most_missed
    rows = "".join(
        group_row(group, is_worst=worst is not None and group.missed == worst.missed) for group in phase.groups
    )
    table = f'<table class="groups">{GROUP_HEADINGS}<tbody>{rows}</tbody></table>'
    return f"<section>{header}{spread(phase)}{table}</section>"


def spread(phase: PhaseFigures) -> str:
    """Return the learners by their share of the points as bars, each with its number."""
    most = max(phase.bins)
    text = ", ".join(f"{name}: {count}" for name, count in zip(BINS, phase.bins, strict=True))
    bars = "".join(
        f'<div><div class="column">{count or ""}<i style="height:{bar_height(count, most)}px"></i></div>'
        f"<span>{name}</span></div>"
        for name, count in zip(BINS, phase.bins, strict=True)
    )
    label = f"Learners by their share of the points in phase {phase.number}. {text}"
    return (
        f"<figure><figcaption>Learners by share of the points</figcaption>"
        f'<div class="spread" role="img" aria-label="{escape(label)}">{bars}</div></figure>'
    )


def bar_height(count: int, most: int) -> int:
    """Return the height of a bar in pixels: at least one, if there is anything."""
    return max(round(56 * count / most), 1) if count else 0


def group_row(group: GroupFigures, *, is_worst: bool) -> str:
    """Return a group with a bar for the share of its situations that was missed."""
    bar = f'<div class="track" aria-hidden="true"><i style="width:{100 * group.missed:.1f}%"></i></div>'
    learners = f"{group.num_lost} of {group.num_played}"
    mark = ' class="worst"' if is_worst else ""
    cells = f"<td>{bar}</td><td>{percent(group.missed)}</td><td>{learners}</td>"
    return f'<tr{mark}><th scope="row">{escape(group.title)}</th>{cells}</tr>'


def names_table(submissions: list[SubmissionResult]) -> str:
    """Return a row per submission."""
    headings = "".join(f'<th scope="col">phase {phase["phase"]}</th>' for phase in submissions[0]["phases"])
    rows = "".join(
        f'<tr><th scope="row">{escape(one_line(one["name"]))}</th>{"".join(map(cell, one["phases"]))}'
        f"<td><strong>{one['points']:g}</strong> of {one['max']}</td></tr>"
        for one in submissions
    )
    head = f'<thead><tr><th scope="col">submission</th>{headings}<th scope="col">points</th></tr></thead>'
    return f'<div class="wide"><table class="names">{head}<tbody>{rows}</tbody></table></div>'


def cell(phase: PhaseResult) -> str:
    """Return the points of a phase; a dash if it is not written, `error` if it could not be loaded."""
    if phase["error"]:
        return "<td>error</td>" if phase["sha256"] else "<td>-</td>"
    return f"<td>{phase['points']:g}</td>" if is_written(phase) else "<td>-</td>"


def title(phase: PhaseFigures) -> str:
    return f"Phase {phase.number}, {ALL_NAMES[phase.number - 1]}"


def percent(share: float) -> str:
    """Return a share in per cent; "0%" and "100%" are exact."""
    whole = round(100 * share)
    if 0 < share < 1:
        whole = min(max(whole, 1), 99)
    return f"{whole}%"
