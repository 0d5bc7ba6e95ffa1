"""Finds out why requests wait: counts the waiting requests in the engine's process and builds sentences for the
page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mini_vllm.engine.reasons import REASONS, Found, sentence_of

SHOWN_SECONDS = 2.0  # how long steps are explained after a page has requested a picture
NUM_TOLD = 2


class WaitGroup(NamedTuple):
    """The number of requests waiting for the same thing; `first` is the first of them, `found` its reason for
    waiting."""

    mark: str
    number: int
    first: str
    found: Found


def waits_of(reasons: Mapping[str, Found]) -> list[WaitGroup]:
    """Group a step's waiting requests by their reason's `mark`, largest group first."""
    groups: dict[str, WaitGroup] = {}
    for name, found in reasons.items():
        # A request queued after a refused one is waiting for the same thing.
        first = found["by"] if found["reason"] == "behind" and found["by"] in reasons else name
        reason = REASONS[reasons[first]["reason"]]
        if reason.label:
            group = groups.get(reason.mark) or WaitGroup(reason.mark, 0, first, reasons[first])
            groups[reason.mark] = group._replace(number=group.number + 1)
    return sorted(groups.values(), key=lambda wait: -wait.number)


def told(waits: Sequence[WaitGroup], label: Callable[[str], str]) -> dict[str, Any]:
    """Return the counts keyed by mark, and the main reasons as a sentence with the requests' labels."""
    total = sum(wait.number for wait in waits)
    main = [f"{wait.mark.capitalize()} {wait.number}: {because(wait, label)}." for wait in waits[:NUM_TOLD]]
    head = f"{total} request{' waits' if total == 1 else 's wait'}."
    return {
        "counts": [[wait.mark, wait.number] for wait in waits],
        "sentence": " ".join([head, *main]) if total else "",
    }


def because(wait: WaitGroup, label: Callable[[str], str]) -> str:
    """Return a clause that names a group's first request and says why it is waiting."""
    named = {key: label(value) if key in ("by", "on") and value else value for key, value in wait.found.items()}
    words = sentence_of(named)
    return f"{label(wait.first)} {words[3:]}" if words.startswith("it ") else words
