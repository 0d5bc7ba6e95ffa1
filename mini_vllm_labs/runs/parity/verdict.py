"""Judges the replay of one scenario."""

from dataclasses import dataclass
from typing import Literal

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.core.invariants import InvariantError
from mini_vllm_labs.runs.parity.known_fields import COMPARED, CONFIG_NAMES, EVENTS
from mini_vllm_labs.runs.parity.replay import ReplayDifference, compare, run_free_of_defects
from mini_vllm_labs.runs.parity.scenario import Scenario

Outcome = Literal["match", "differ", "free of defect", "broken", "out of scope"]

# Each vLLM release's defects; the README next to its traces describes them. Traces that name other defects are compared
# in the usual way.
KNOWN_DEFECTS = {
    "0.13.0": {"stale_blocks", "index_slip", "stale_drafts", "flipped_skips"},
    "0.33.0": {"stale_blocks", "own_reservation", "ghost_prefill", "unreserved_prompts"},
}


@dataclass(frozen=True)
class ParityVerdict:
    """The outcome of one scenario. `broken` means that an invariant was violated or that our code raised `cause`."""

    scenario: Scenario
    outcome: Outcome
    difference: ReplayDifference | None = None
    error: str = ""
    cause: Exception | None = None

    @property
    def failed(self) -> bool:
        return self.outcome in ("differ", "broken")

    @property
    def headline(self) -> str:
        """The first difference or the error, in one line."""
        if self.difference is not None:
            return f"differs first in step {self.difference.step}, field {self.difference.field!r}"
        return self.error


def named_defects(scenario: Scenario) -> set[str]:
    """Return the defects that the trace names and that the recorded release is known to have."""
    return KNOWN_DEFECTS[scenario.release] & set(scenario.defects)


def judge(scenario: Scenario, lineup: Lineup) -> ParityVerdict:
    """Replay a scenario. Raises `NotImplementedError` for an unwritten phase."""
    if scenario.out_of_scope(lineup) is not None:
        return ParityVerdict(scenario, "out of scope")
    try:
        if named_defects(scenario):
            run_free_of_defects(scenario, lineup)
            return ParityVerdict(scenario, "free of defect")
        difference = compare(scenario, lineup)
    except NotImplementedError:  # an unwritten task does not violate any invariant
        raise
    except InvariantError as error:
        return ParityVerdict(scenario, "broken", error=f"an invariant is broken {_place(error)}: {error}", cause=error)
    except Exception as error:
        text = f"the engine raised {type(error).__name__} {_place(error)}: {error}"
        return ParityVerdict(scenario, "broken", error=text, cause=error)
    return ParityVerdict(scenario, "match") if difference is None else ParityVerdict(scenario, "differ", difference)


def _place(error: Exception) -> str:
    return " ".join(getattr(error, "__notes__", []))


def require_complete(scenario: Scenario) -> None:
    """Raise a `ValueError` with the scenario's name if parts needed for its replay are missing."""
    try:
        for name in CONFIG_NAMES:
            scenario.line["config"][name]
        scenario.config()
        for request_id in scenario.line["requests"]:
            scenario.request(request_id)
        for event in scenario.line["events"]:
            name = next(name for name in EVENTS if name in event)
            if name in EVENTS[:3]:
                scenario.line["requests"][event[name]]
        for step in scenario.steps:
            for field in COMPARED:
                step[field]
        scenario.line["trace"]["requests"]
    except (KeyError, TypeError, AttributeError, IndexError, StopIteration, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"scenario {scenario.name!r} is not complete: {what}") from error
