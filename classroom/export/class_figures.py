"""What a class did, in figures: per phase and per group of situations."""

from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from statistics import median

from classroom.judge.summary import GroupSummary, PhaseSummary, Report, is_written

BINS = ("none", "up to 25%", "up to 50%", "up to 75%", "below 100%", "all")


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
    num_full: int
    median: float
    bins: list[int]
    groups: list[GroupFigures]

    @property
    def lost(self) -> float:
        """The share of the points that was lost at the median."""
        return 1 - self.median / self.max if self.num_written else 0.0

    @property
    def most_missed(self) -> GroupFigures | None:
        """The group with the largest share of situations that were not right; None if all were."""
        worst = max(self.groups, key=lambda group: group.missed, default=None)
        return worst if worst is not None and worst.missed > 0 else None


def figures(report: Report) -> list[PhaseFigures]:
    """Return the figures of each phase that was graded."""
    found: dict[int, list[PhaseSummary]] = defaultdict(list)
    for summary in report.submissions:
        for phase in summary["phases"]:
            found[phase["phase"]].append(phase)
    return [phase_figures(phases) for phases in found.values()]


def phase_figures(phases: list[PhaseSummary]) -> PhaseFigures:
    """Return the figures of one phase, from that of each learner."""
    written = [phase for phase in phases if is_written(phase)]
    points = [phase["points"] for phase in written]
    most = phases[0]["max"]
    bins = [0] * len(BINS)
    for one in points:
        bins[bin_of(one / most)] += 1
    return PhaseFigures(
        number=phases[0]["phase"],
        max=most,
        num_learners=len(phases),
        num_written=len(written),
        num_broken=sum(bool(phase["error"] and phase["sha256"]) for phase in phases),
        num_full=bins[-1],
        median=median(points) if points else 0.0,
        bins=bins,
        groups=[group_figures(list(same)) for same in zip(*(phase["groups"] for phase in written), strict=True)],
    )


def group_figures(groups: list[GroupSummary]) -> GroupFigures:
    """Return the figures of one group, from that of each learner."""
    situations = [status for group in groups for status in group["situations"]]
    missed = sum(status != "right" for status in situations)
    num_lost = sum(group["points"] < group["max"] for group in groups)
    return GroupFigures(groups[0]["title"], len(groups), num_lost, missed / len(situations))


def bin_of(share: float) -> int:
    """Return the bin of a share of the points: none and all have bins of their own."""
    return len(BINS) - 1 if share == 1 else ceil(4 * share)
