"""Counts and groups a release's decisions in the scenarios of a recording."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.release_rules import RELEASES, number, rules
from mini_vllm_labs.runs.parity.scenario import Scenario
from mini_vllm_labs.upkeep.next_release.difference import Difference, first_difference

VERDICTS = ("same", "same decisions", "differs", "refused", "crashed", "endless")
WIDEST = 160


@dataclass(frozen=True)
class ScenarioVerdict:
    """A release's outcome in one scenario: one of `VERDICTS`, and the first difference or the reason for a missing
    trace."""

    scenario: Scenario
    verdict: str
    what: str = ""
    difference: Difference | None = None

    @property
    def line(self) -> str:
        """The finding as a line of text."""
        where = f"step {self.difference.step}: " if self.difference else ""
        return "\t".join([self.scenario.name, self.scenario.kind, self.verdict, where + self.what])


def judged(scenario: Scenario, outcome: Mapping[str, Any]) -> ScenarioVerdict:
    """Compare the release's outcome with the recording."""
    if "trace" not in outcome:
        verdict = next(name for name in VERDICTS if name in outcome)
        return ScenarioVerdict(scenario, verdict, outcome[verdict])
    difference = first_difference(scenario.line["trace"], outcome["trace"])
    if difference is None:
        return ScenarioVerdict(scenario, "same")
    verdict = "differs" if difference.is_decision else "same decisions"
    return ScenarioVerdict(scenario, verdict, difference.what, difference)


def summary(version: str, findings: Sequence[ScenarioVerdict]) -> Iterator[str]:
    """Yield the report's lines for each recorded release (a table by kind, and groups), then those about the rules."""
    for release in RELEASES:
        mine = [one for one in findings if one.scenario.release == release]
        if mine:
            yield from ("", f"vLLM {version} in the scenarios of {release}", "", *_table(mine), "", *_groups(mine))
    yield from _rules(version, findings)


def _table(findings: Sequence[ScenarioVerdict]) -> Iterator[str]:
    kinds = dict.fromkeys(one.scenario.kind for one in findings)
    count = Counter((kind, one.verdict) for one in findings for kind in (one.scenario.kind, "all"))
    shown = [verdict for verdict in VERDICTS if count["all", verdict] or verdict in VERDICTS[:3]]
    yield "".join(f"{text:>16}" for text in ("kind", *shown, "of"))
    for kind in (*kinds, "all"):
        counts = [count[kind, verdict] for verdict in shown]
        yield "".join(f"{text:>16}" for text in (kind, *counts, sum(count[kind, verdict] for verdict in VERDICTS)))


def _groups(findings: Sequence[ScenarioVerdict]) -> Iterator[str]:
    """Yield the groups of identical first differences, largest first, each with its shortest scenario."""
    groups = defaultdict[tuple[str, str], list[ScenarioVerdict]](list)
    for one in findings:
        if one.verdict != "same":
            groups[one.verdict, one.what].append(one)
    for (verdict, what), members in sorted(
        groups.items(), key=lambda item: (VERDICTS.index(item[0][0]), -len(item[1]))
    ):
        kinds = Counter(one.scenario.kind for one in members)
        yield f"{verdict}: {what}: {len(members)} ({', '.join(f'{kind} {n}' for kind, n in kinds.most_common())})"
        shortest = min(members, key=lambda one: (one.difference.step if one.difference else 0, len(one.scenario.steps)))
        if (found := shortest.difference) is None:
            yield f"    {shortest.scenario.name}"
            continue
        yield f"    {shortest.scenario.name}, step {found.step}"
        yield f"      recorded  {_short(found.recorded)}"
        yield f"      {'found':8}  {_short(found.found)}"


def _rules(version: str, findings: Sequence[ScenarioVerdict]) -> Iterator[str]:
    """Yield what the recordings in `release_rules.py` show about each rule: whether it matches the newest release."""
    newest = {one.scenario.name: one for one in findings if one.scenario.release == RELEASES[-1]}
    told = [(rule, newest.get(rule.metadata["trace"])) for rule in rules()]
    if any(found is not None for _, found in told):
        yield from ("", f"Rules of vLLM {RELEASES[-1]}, each in its recording")
    for rule, found in sorted(told, key=lambda one: number(one[0].metadata["since"])):
        if found is not None:
            holds = number(rule.metadata["since"]) <= number(version)
            agrees = "" if holds == (found.verdict in VERDICTS[:2]) else "   <- look here"
            yield f"  since {rule.metadata['since']:5} {rule.name:32} {found.verdict}: {found.what or 'all'}{agrees}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
