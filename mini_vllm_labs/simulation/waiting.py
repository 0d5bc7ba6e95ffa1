"""Measures how long a simulated load's requests went without tokens, by reason."""

from collections import defaultdict

from mini_vllm import EngineConfig
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.engine.reasons import cause_of
from mini_vllm.engine.step_reasons import StepReasons


class WaitingTimes:
    """Adds up the seconds during which requests went without tokens. `seconds` is keyed by the reason's name.

    A request queued after a refused one is waiting for the same thing.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._reasons: StepReasons | None = None

    def watch(self, scheduler: Scheduler, config: EngineConfig) -> None:
        self._reasons = StepReasons(scheduler, config)

    def note(self, plan: SchedulerOutput, seconds: float) -> None:
        """Add a step that took `seconds`. Call this method before the step's results reach the scheduler."""
        assert self._reasons is not None
        found, _ = self._reasons.of_step(plan)
        for one in found.values():
            self.seconds[cause_of(one, found).name] += seconds
