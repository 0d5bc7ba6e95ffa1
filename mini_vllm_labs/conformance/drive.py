"""Runs scenarios on an engine, each to its end or to the first step in which the decisions differ."""

import threading
from collections import ChainMap
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mini_vllm_labs.conformance.by_times import TELLABLE, RecordedTimes
from mini_vllm_labs.conformance.compare import Comparison, FieldDifference
from mini_vllm_labs.conformance.process import BrokenEngineError, EngineClient, RefusedError
from mini_vllm_labs.conformance.scenarios import Message, RecordedScenario

MAX_BROKEN = 10


@dataclass(frozen=True)
class ScenarioOutcome:
    """How a scenario ended: `same`, `differs`, `broken` or `skipped`; the last two have a reason.

    `apart` names defects of the recorded system that the engine does not declare; a difference then does not count as a
    failure. `missing` names the capabilities that the engine lacks if the scenario was skipped for that reason.
    """

    scenario: RecordedScenario
    outcome: str
    why: str = ""
    first: dict[str, FieldDifference] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.outcome == "broken" or (self.outcome == "differs" and not self.apart)

    @property
    def difference(self) -> FieldDifference | None:
        """The earliest difference; within a step, differences in decisions come first."""
        return min(self.first.values(), key=lambda one: one.step, default=None)


class Play:
    """One scenario on one engine. `step` is the last step that was reached."""

    def __init__(self, scenario: RecordedScenario, engine: EngineClient, offers: list[str]) -> None:
        self.scenario, self.engine, self.compared = scenario, engine, Comparison(offers)
        self.step = 0

    def run(self) -> dict[str, FieldDifference]:
        """Run all steps and return the first differences.

        Messages before the first one that needs an answer are sent together.
        """
        scenario, engine, compared = self.scenario, self.engine, self.compared
        engine.ask([scenario.begin()])
        pending: list[Message] = []
        decided: Message | None = None
        for self.step, recorded in enumerate(scenario.steps):
            events = scenario.events(self.step, before_update=False)
            answers = engine.ask([*pending, *events, {"op": "step", "step": self.step}])
            self._compare_rest(decided, answers, len(pending) - 1)
            decided = answers[-1]
            if not compared.decide(self.step, recorded, decided):
                return compared.first
            pending = [*scenario.events(self.step, before_update=True), scenario.update(self.step)]
        answers = engine.ask([*pending, {"op": "end"}])
        self.step += 1
        self._compare_rest(decided, answers, len(pending) - 1)
        return compared.first

    def by_times(self) -> dict[str, FieldDifference]:
        """Run the scenario as a whole and return the earliest difference."""
        times = RecordedTimes(self.scenario)
        (answer,) = self.engine.ask([times.message()])
        return times.first_differences(answer, self.compared.groups)

    def _compare_rest(self, decided: Message | None, answers: Sequence[Message], update: int) -> None:
        if decided is not None:
            last = self.step - 1
            both = [one["detail"] for one in (decided, answers[update]) if isinstance(one.get("detail"), dict)]
            answer = decided | answers[update] | {"detail": dict(ChainMap(*both))}
            self.compared.compare_rest(last, self.scenario.steps[last], answer)


def judge(scenario: RecordedScenario, engine: EngineClient, hello: Message) -> ScenarioOutcome:
    """Run a scenario if the engine declares the capabilities that the scenario needs."""
    apart = tuple(sorted(set(scenario.line["defects"]) - set(hello["defects"])))
    if missing := tuple(sorted(scenario.needs - set(hello["has"]))):
        why = f"not declared: {', '.join(missing)}"
        return ScenarioOutcome(scenario, "skipped", why, apart=apart, missing=missing)
    by_times = hello.get("answers") == "times"
    if by_times and (beyond := sorted(scenario.needs - TELLABLE)):
        return ScenarioOutcome(scenario, "skipped", f"times do not tell {', '.join(beyond)}", apart=apart)
    play = Play(scenario, engine, hello["offers"])
    try:
        first = play.by_times() if by_times else play.run()
    except RefusedError as refused:
        return ScenarioOutcome(scenario, "skipped", str(refused), apart=apart)
    except BrokenEngineError as error:
        engine.end(0)
        step = play.step if error.step is None else error.step
        return ScenarioOutcome(scenario, "broken", f"{error}, in step {step} of {scenario.name}", apart=apart)
    return ScenarioOutcome(scenario, "differs" if first else "same", first=first, apart=apart)


def judge_all(
    scenarios: Iterable[RecordedScenario], engines: Sequence[EngineClient], hello: Message
) -> list[ScenarioOutcome]:
    """Run scenarios on several processes of the same engine; return their outcomes in the scenarios' order.

    After `MAX_BROKEN` broken scenarios in a row, the remaining scenarios count as broken without being run.
    """
    idle, lock, in_a_row = list(engines), threading.Lock(), 0
    given_up = f"not played: the engine broke in {MAX_BROKEN} scenarios in a row"

    def one(scenario: RecordedScenario) -> ScenarioOutcome:
        nonlocal in_a_row
        if in_a_row >= MAX_BROKEN:
            return ScenarioOutcome(scenario, "broken", given_up)
        with lock:
            engine = idle.pop()
        verdict = judge(scenario, engine, hello)
        with lock:
            idle.append(engine)
            if verdict.outcome != "skipped":
                in_a_row = in_a_row + 1 if verdict.outcome == "broken" else 0
        return verdict

    with ThreadPoolExecutor(len(engines)) as pool:
        try:
            return list(pool.map(one, scenarios))
        finally:
            for engine in engines:
                engine.end()
