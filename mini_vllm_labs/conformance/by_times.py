"""Compares an engine's admission and token times over a whole scenario, for engines that cannot be stepped.

A pass that computes prompt tokens takes `PREFILL`, and a pass that computes later tokens takes `DECODE`. A pass that
does both takes the sum, and an idle pass takes no time.
"""

from dataclasses import dataclass, field
from typing import Any

from mini_vllm_labs.conformance.compare import FieldDifference
from mini_vllm_labs.conformance.process import BrokenEngineError
from mini_vllm_labs.conformance.scenarios import PLAIN, Message, RecordedScenario

PREFILL, DECODE, NEAR = 10.0, 1.0, 0.01
TELLABLE = frozenset({*PLAIN, "options"} - {"abort", "abort_before_update"})


@dataclass
class RecordedTimes:
    """The recorded decisions, expressed as times: when each step begins, and when requests are admitted and get
    tokens."""

    scenario: RecordedScenario
    starts: list[float] = field(default_factory=list)
    admitted: dict[str, list[float]] = field(default_factory=dict)
    hits: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, list[float]] = field(default_factory=dict)
    asked: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        lengths = {name: one["prompt_len"] for name, one in self.scenario.line["requests"].items()}
        now, was_idle = 0.0, True
        for number, step in enumerate(self.scenario.steps):
            self.starts.append(now)
            for event in self.scenario.events(number, before_update=False):
                self.asked.append({name: event[name] for name in ("id", "prompt", "priority")})
                self.asked[-1] |= {"at": now, "idle": was_idle, "output": []}
            ends = [(one["computed"], one["computed"] + one["n"], lengths[one["id"]]) for one in step["scheduled"]]
            for one in step["scheduled"]:
                if one["kind"] != "running":
                    self.admitted.setdefault(one["id"], []).append(now)
                    self.hits.setdefault(one["id"], []).append(one["hit"])
            now += PREFILL * any(first < length for first, _, length in ends)
            now += DECODE * any(last > length for _, last, length in ends)
            was_idle = not ends
            for request_id, tokens in step["output"]:
                self.tokens.setdefault(request_id, []).extend(now for _ in tokens)
        outputs: dict[str, list[int]] = {one["id"]: one["output"] for one in self.asked}
        for step in self.scenario.steps:
            for request_id, tokens in step["output"]:
                outputs[request_id] += tokens

    def message(self) -> Message:
        """Return the scenario's only message: its settings, and its requests with their outputs."""
        return self.scenario.begin() | {"op": "play", "times": [PREFILL, DECODE], "requests": self.asked}

    def first_differences(self, answer: Message, offers: list[str]) -> dict[str, FieldDifference]:
        """Return the earliest difference. Null means that the engine does not know the time, and it matches any
        time."""
        names = ["admitted", "tokens", *(["hits"] if "computed" in offers else [])]
        found = [one for name in names for one in self._differences(name, answer.get(name))]
        first = min(found, key=lambda one: one.step, default=None)
        return {} if first is None else {"base": first}

    def _differences(self, name: str, given: Any) -> list[FieldDifference]:
        expected: dict[str, list[float]] = getattr(self, name)
        if not isinstance(given, dict) or not all(isinstance(one, list) for one in given.values()):
            raise BrokenEngineError(f"{name!r} must contain a list for each request")
        found = []
        for request_id in sorted(expected.keys() | given.keys()):
            ours, theirs = expected.get(request_id, []), given.get(request_id, [])
            same = [_near(*pair) for pair in zip(ours, theirs, strict=False)] + [False]
            if (place := same.index(False)) < max(len(ours), len(theirs)):
                times = self.admitted.get(request_id, []) if name == "hits" else ours
                step = self._step_at((times or [self.starts[-1]])[min(place, len(times) - 1)], name)
                found.append(FieldDifference(step, f"{name}[{request_id}]", ours, theirs))
        return found

    def _step_at(self, time: float, name: str) -> int:
        """Return the step that begins at a time, or, for tokens, the step that ends at it."""
        until = time - NEAR if name == "tokens" else time + NEAR
        return max(0, sum(start < until for start in self.starts) - 1)


def _near(ours: float, theirs: Any) -> bool:
    return theirs is None or (isinstance(theirs, int | float) and abs(ours - theirs) < NEAR)
