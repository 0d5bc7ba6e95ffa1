"""Goodput: how many requests a second met a service level objective. (vLLM: `bench serve --goodput`.)"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.serve.answer import Answer

NAMES = ("ttft", "tpot", "e2el")


@dataclass(frozen=True, slots=True)
class Objective:
    """Limits in milliseconds; None: no limit. A request is good if it keeps all of them."""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def is_good(self, answer: Answer) -> bool:
        """Return whether a completed answer kept every limit."""
        measured = (answer.ttft, answer.tpot, answer.e2el)
        limits = (self.ttft, self.tpot, self.e2el)
        return all(limit is None or 1e3 * value <= limit for value, limit in zip(measured, limits, strict=True))


def parse_objective(texts: Sequence[str]) -> Objective | None:
    """Parse `ttft:200 tpot:50`, in one text or several; None without any. Raises `ValueError` for anything else."""
    limits: dict[str, float] = {}
    for item in " ".join(texts).replace(",", " ").split():
        name, _, value = item.partition(":")
        try:
            limits[name] = float(value)
        except ValueError:
            limits[name] = 0.0
        if name not in NAMES or not limits[name] > 0:
            raise ValueError(f"goodput must be NAME:MILLISECONDS with a name of {', '.join(NAMES)}, got {item!r}")
    return Objective(**limits) if limits else None
