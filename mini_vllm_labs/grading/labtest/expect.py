"""Compares values in graded tests of all phases, and builds the reports of failures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import NoReturn, NotRequired, TypedDict, Unpack

from mini_vllm_labs.grading.hints import RULE
from mini_vllm_labs.grading.labtest.failure import Failed, Failure, Report, Shares
from mini_vllm_labs.grading.plays.support import LONG_START
from mini_vllm_labs.runs.sandbox.errors import OutOfTime

MAX_LINES = 12
MAX_COLUMNS = 120
MAX_ENTRIES = 60
MAX_CHARACTERS = 600
MAX_CALL, ENDING = 400, 40  # maximum number of characters shown for one call: its beginning and its answer
MAX_CALLS, LAST_CALLS = 40, 10
QUEUE = "StrictQueue"
QUEUE_METHODS = "the methods of `RequestQueue` (mini_vllm/core/interfaces.py) and nothing else."


class Told(TypedDict):
    """A report's contents apart from the two values.

    `situation` describes the state before the call of the learner's code, and `calls` lists the calls that it made.
    Notebooks draw `shares`.
    """

    rule: str
    situation: str | Sequence[str]
    hint: str
    calls: NotRequired[Sequence[str]]
    shares: NotRequired[Shares | None]


def expect_equal(yours: object, expected: object, **told: Unpack[Told]) -> None:
    """Fail the test with the report from `difference_report` unless both values are equal."""
    report = difference_report(yours, expected, **told)
    if report:
        raise Failed(report, report.parts)


def difference_report(yours: object, expected: object, **told: Unpack[Told]) -> Report:
    """Compare two values; return a report for the learner, or an empty string if they are equal.

    Two mappings are shown as a table with one row per entry.
    """
    if yours == expected:
        return Report()
    return _report(*_shortened(yours, expected), **told)


def lab_failure(*, expected: object, yours: object, **told: Unpack[Told]) -> NoReturn:
    """Fail the test without comparing values, with the same text as a failing `expect_equal`."""
    report = _report(yours, expected, **told)
    raise Failed(report, report.parts)


def fail_with_smallest(reports: Iterable[str]) -> None:
    """Fail with the shortest nonempty report, so that the learner reads the simplest case."""
    failures = [report for report in reports if report]
    if failures:
        count = f"({len(failures)} of the random cases differ; this is the smallest.)\n"
        smallest = min(failures, key=_length)
        raise Failed(count + smallest, smallest.parts if isinstance(smallest, Report) else None)


def _length(report: str) -> int:
    """Return the length of a report without its rule and hint."""
    parts = report.parts if isinstance(report, Report) else None
    return len(report) - (len(parts.rule) + len(parts.hint) if parts else 0)


@contextmanager
def explained(situation: Sequence[str], calls: Sequence[str] = (), hint: str = "", *, rule: str = "") -> Iterator[None]:
    """Add the rule, the situation and, if there is one, a hint to an exception from the learner's code.

    The hint is added only to `ValueError`, `IndexError` and `KeyError`; other exceptions have their own hints.
    """
    try:
        yield
    except NotImplementedError:  # an unwritten task needs no explanation
        raise
    except (Exception, OutOfTime) as error:
        if rule:
            error.add_note(f"{RULE}{rule}")
        lines = ["The situation:", *situation[-MAX_LINES:]]
        if calls:
            lines += ["Your calls, in order:" if len(calls) <= MAX_LINES else "Your last calls:", *calls[-MAX_LINES:]]
        if len(lines) > 1:  # a call can fail before a play has described anything
            error.add_note("\n  ".join(lines))
        if QUEUE in str(error):
            error.add_note(
                f"Hint: {QUEUE} is the waiting queue of the tests. It has {QUEUE_METHODS} Which one do you need?"
            )
        elif hint and isinstance(error, ValueError | IndexError | KeyError):
            error.add_note(f"Hint: {hint}")
        raise


def _shortened(yours: object, expected: object) -> tuple[object, object]:
    """Shorten long lists and texts in both values to the part around their first difference."""
    if isinstance(yours, Mapping) and isinstance(expected, Mapping):
        pairs = {key: _shortened(yours.get(key, "-"), value) for key, value in expected.items()}
        return {**yours, **{key: pair[0] for key, pair in pairs.items()}}, {key: pair[1] for key, pair in pairs.items()}
    kind = str if isinstance(yours, str) else list
    limit = MAX_CHARACTERS if kind is str else MAX_ENTRIES
    if not (isinstance(yours, kind) and isinstance(expected, kind)) or max(len(yours), len(expected)) <= limit:
        return yours, expected
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(yours, expected, strict=False)))
    return _around(same, yours), _around(same, expected)


def _around(place: int, entries: str | list[object]) -> str:
    if isinstance(entries, str):
        return f"... {entries[max(0, place - 40) : place + 80]} ..."
    first = max(0, place - 3)
    return f"{len(entries)} entries, from number {first} on: {str(entries[first : place + 6])[1:-1]} ..."


def _report(yours: object, expected: object, **told: Unpack[Told]) -> Report:
    rows = [("", str(expected), str(yours))]
    comparison = [f"  expected   {expected}", f"  yours      {yours}"]
    if isinstance(expected, Mapping) and isinstance(yours, Mapping):
        keys = (*expected, *(key for key in yours if key not in expected))
        rows = [(str(key), str(expected.get(key, "-")), str(yours.get(key, "-"))) for key in keys]
        comparison = _table(expected, yours)
        if max(len(line) for line in comparison) > MAX_COLUMNS:
            comparison = _stack(expected, yours)
    situation, calls = told["situation"], told.get("calls", ())
    lines = situation.strip().splitlines() if isinstance(situation, str) else situation
    lines = [line if len(line) <= MAX_CHARACTERS else f"{line[:MAX_CHARACTERS]} ..." for line in lines]
    parts = [told["rule"], "", *(f"  {line}" for line in lines), "", *comparison]
    if calls:
        parts += ["", "  your calls, in order:", *(f"    {call}" for call in _without_the_middle(calls))]
    # a combining accent alone is invisible
    text = "\n".join([*parts, f"Hint: {told['hint']}"]).replace("\u0301", "\\u0301")
    text = text.replace(LONG_START, "x...x")
    return Report.of(text, Failure(told["rule"], list(lines), rows, list(calls), told["hint"], told.get("shares")))


def _without_the_middle(calls: Sequence[str]) -> list[str]:
    """Shorten calls for a terminal: at most `MAX_CALLS` of them, with about `MAX_CALL` characters each."""
    shown = [call if len(call) <= MAX_CALL else f"{call[:MAX_CALL]} ... {call[-ENDING:]}" for call in calls]
    if len(shown) > MAX_CALLS:
        first = MAX_CALLS - LAST_CALLS
        shown[first:-LAST_CALLS] = [f"... {len(calls) - MAX_CALLS} more ..."]
    return shown


def _table(expected: Mapping[object, object], yours: Mapping[object, object]) -> list[str]:
    """Return one line per entry of either mapping, and mark differences."""
    rows = [("", "expected", "yours", "")]
    for key in (*expected, *(key for key in yours if key not in expected)):
        ours, theirs = expected.get(key, "-"), yours.get(key, "-")
        rows.append((str(key), str(ours), str(theirs), "" if ours == theirs else "<-- differs"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"  {key:<{widths[0]}}   {ours:<{widths[1]}}   {theirs:<{widths[2]}}  {mark}".rstrip()
        for key, ours, theirs, mark in rows
    ]


def _stack(expected: Mapping[object, object], yours: Mapping[object, object]) -> list[str]:
    """Return the same content as `_table`, but with the expected value above yours, for long values."""
    keys = [*expected, *(key for key in yours if key not in expected)]
    width = max(len(str(key)) for key in keys)
    lines: list[str] = []
    for key in keys:
        ours, theirs = expected.get(key, "-"), yours.get(key, "-")
        if ours == theirs:
            lines.append(f"  {key!s:{width}}  as expected  {ours}")
        else:
            lines.append(f"  {key!s:{width}}  expected     {ours}")
            lines.append(f"  {'':{width}}  yours        {theirs}    <-- differs")
    return lines
