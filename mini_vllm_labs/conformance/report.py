"""Prints the findings of a run: the table, the first failure, and what the failures have in common."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten

from mini_vllm_labs.conformance.compare import short
from mini_vllm_labs.conformance.drive import ScenarioOutcome
from mini_vllm_labs.conformance.scenarios import DRAWN, FILES, KINDS, Message

HEADINGS = "release kind scenarios asked decisions same differ broken skipped apart".split()
LEGEND = "decisions: who got how many tokens, and who was preempted; same: every field that the engine offers"
MAX_NAMED, WIDTH = 8, 160
Rules = Mapping[str, str]
"""A rule's name and sentence, by the named scenario that shows it."""


def printable(text: str) -> str:
    """Return text from the engine without characters that move a terminal's cursor or that cannot be encoded in
    UTF-8."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def greeting(hello: Message) -> str:
    """Return which engine was tested, and which capabilities it declares."""
    declared = {name: printable(", ".join(hello[name])) or "nothing" for name in ("has", "offers")}
    name = f"{hello.get('engine', 'an engine without a name')} {hello.get('version', '')}".strip()
    return f"{printable(name)}\n  has {declared['has']}\n  offers {declared['offers']}"


def table(verdicts: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """Yield the table's lines: one row for each release and kind, and one row for all of them."""
    rows = [HEADINGS]
    for release in FILES:
        for kind in (*KINDS, *DRAWN):
            here = [one for one in verdicts if (one.scenario.release, one.scenario.kind) == (release, kind)]
            rows += [[release, kind, *_counts(here)]] if here else []
    rows += [["all", "", *_counts(verdicts)]] if len(rows) > 2 else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        names, numbers = zip(row[:2], widths[:2], strict=True), zip(row[2:], widths[2:], strict=True)
        yield "  ".join([*(cell.ljust(n) for cell, n in names), *(cell.rjust(n) for cell, n in numbers)])
    yield LEGEND


def asked(verdicts: Sequence[ScenarioOutcome]) -> list[ScenarioOutcome]:
    """Return the scenarios that count: those that were not skipped, and whose recording does not show a defect."""
    return [one for one in verdicts if one.outcome != "skipped" and not (one.apart and not one.failed)]


def _counts(verdicts: Sequence[ScenarioOutcome]) -> list[str]:
    counted = asked(verdicts)
    outcomes = Counter(one.outcome for one in counted)
    decided = sum(one.outcome != "broken" and "base" not in one.first for one in counted)
    skipped = sum(one.outcome == "skipped" for one in verdicts)
    numbers = [len(verdicts), len(counted), decided, *(outcomes[name] for name in ("same", "differs", "broken"))]
    return [str(number) for number in (*numbers, skipped, len(verdicts) - len(counted) - skipped)]


def remarks(verdicts: Sequence[ScenarioOutcome]) -> Iterator[str]:
    """Yield why scenarios were skipped, and which recorded defects set some scenarios apart."""
    skipped = [one for one in verdicts if one.outcome == "skipped"]
    if missing := Counter(name for one in skipped for name in one.missing):
        listed = ", ".join(f"{name} ({n})" for name, n in missing.most_common())
        yield f"skipped, {sum(bool(one.missing) for one in skipped)}: they need what is not declared: {listed}"
    for why, count in Counter(one.why for one in skipped if not one.missing).most_common(MAX_NAMED):
        yield f"skipped, {count}: {printable(why)}"
    if drawn := sorted({one.scenario.kind for one in verdicts} & set(DRAWN)):
        yield f"{', '.join(drawn)}: decided by the course's engine, not recorded from vLLM"
    apart = [one for one in verdicts if one.apart and one.outcome in ("same", "differs")]
    if apart:
        names = ", ".join(sorted({name for one in apart for name in one.apart}))
        yield f"apart, {len(apart)}: they show a defect of vLLM that the engine does not declare ({names})"


def failure(verdict: ScenarioOutcome, rules: Rules) -> Iterator[str]:
    """Yield a failure's scenario, its rule, and both sides' decisions."""
    scenario, first = verdict.scenario, verdict.difference
    yield f"{scenario.name} (vLLM {scenario.release}, {scenario.kind})"
    if scenario.name in rules:
        yield f"  rule      {rules[scenario.name]}"
    if "shows" in scenario.line:
        yield f"  it shows  {scenario.line['shows']}"
    if first is None:
        yield f"  broken    {printable(verdict.why)}"
        return
    yield f"  step {first.step} of {len(scenario.steps)}: {first.words} differs first"
    yield f"  expected  {short(first.expected)}"
    yield f"  given     {printable(short(first.got))}"


def in_common(verdicts: Sequence[ScenarioOutcome], rules: Rules) -> Iterator[str]:
    """Yield the fields where failures first differ, the capabilities they all need, and failures that each show one
    rule."""
    failures = [one for one in verdicts if one.failed]
    fields = Counter(one.difference.words if one.difference else "a broken answer" for one in failures)
    listed = ", ".join(f"{words} ({n})" for words, n in fields.most_common())
    yield f"\nThe failures, {len(failures)}, differ first in: {listed}"
    shared = frozenset.intersection(*(one.scenario.needs for one in failures))
    everywhere = frozenset.intersection(*(one.scenario.needs for one in asked(verdicts)))
    if special := sorted(shared - everywhere):
        yield f"all of them need: {', '.join(special)}"
    named = [one.scenario for one in failures if one.scenario.line["kind"] == "named"]
    for scenario in named[:MAX_NAMED]:
        yield "  " + shorten(f"{scenario.name}: {rules.get(scenario.name) or scenario.line.get('shows', '')}", WIDTH)
    if more := named[MAX_NAMED:]:
        yield f"  and {len(more)} more scenarios that show one rule each"


def conclusion(verdicts: Sequence[ScenarioOutcome]) -> str:
    counted = asked(verdicts)
    if not counted:
        return "Nothing was asked: no chosen scenario needs only what the engine declares."
    same = sum(one.outcome == "same" for one in counted)
    judge = "the course's engine" if any(one.scenario.kind in DRAWN for one in counted) else "vLLM"
    return f"{same} of {len(counted)} scenarios asked: the same as {judge} in every field that the engine offers."
