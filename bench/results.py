"""The results of `bench throughput`: each backend's fastest round of each workload."""

from dataclasses import asdict, dataclass, field
from typing import Any

from bench.plan import OURS, Plan
from bench.served import Served, num_equal, summary
from course.workloads.timed_request import TimedRequest


@dataclass(slots=True)
class Entry:
    """One backend's fastest round of one workload.

    `equal` is the number of requests in all rounds with the same tokens as mini-vLLM's, and the number compared.
    """

    requests: list[TimedRequest]
    served: Served
    all_seconds: list[float]
    facts: dict[str, Any]
    equal: tuple[int, int]


@dataclass(slots=True)
class Results:
    """The fastest rounds by workload and backend, and why other backends are missing."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def keep(
        self,
        workload: str,
        name: str,
        requests: list[TimedRequest],
        served: Served,
        ours: Served,
        facts: dict[str, Any],
    ) -> None:
        """Keep a round if it is the backend's fastest; keep the seconds of all rounds."""
        entries = self.entries.setdefault(workload, {})
        equal, seconds = num_equal(ours, served), [served.seconds]
        if (before := entries.get(name)) is not None:
            equal = (before.equal[0] + equal[0], before.equal[1] + equal[1])
            seconds = before.all_seconds + seconds
            if before.served.seconds <= served.seconds:
                requests, served = before.requests, before.served
        entries[name] = Entry(requests, served, seconds, facts, equal)


def as_record(plan: Plan, results: Results) -> dict[str, Any]:
    """Return the results as a JSON object."""
    settings = plan.settings()
    return {
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "kv_cache_tokens": settings.kv_cache_tokens,
        "plan": {**asdict(plan), "model": plan.model.name, "backends": list(plan.backends)},
        "missing": results.missing,
        "workloads": {
            workload: {
                name: {
                    **summary(entry.requests, entry.served),
                    "all_seconds": entry.all_seconds,
                    "facts": entry.facts,
                    "ours_is_faster_by": ratio(entries, name),
                    "equal_requests": entry.equal,
                }
                for name, entry in entries.items()
            }
            for workload, entries in results.entries.items()
        },
    }


def ratio(entries: dict[str, Entry], name: str) -> float:
    """Return mini-vLLM's output tokens per second divided by another backend's.

    For a backend that serves only some requests, its rate on those counts.
    """
    return entries[OURS].served.tokens_per_second / entries[name].served.tokens_per_second
