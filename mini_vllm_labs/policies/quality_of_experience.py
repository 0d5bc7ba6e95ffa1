"""Andes: gives memory to the requests whose readers gain the most from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.settings import require_positive


@dataclass(slots=True)
class TokenSeconds:
    """The token-seconds that a reader has received and expected so far: the areas under the curves of tokens over
    time."""

    got: float = 0.0
    expected: float = 0.0


class QualityOfExperience(SchedulingPolicy):
    """Serves the requests that gain the most quality of experience per KV block, and preempts from the other end.

    A reader expects the first token after `ttft` seconds and another every `tpot` seconds; a service level's limits
    override both. The gain compares two futures over the next `horizon` seconds: a token every `seconds_per_token`
    seconds, or none. If there are not enough blocks for the best waiting request, running requests with a smaller gain
    give way, each at most `max_preemptions` times. Raises `ValueError` unless every parameter is greater than 0.

    From Andes ("Defining and Enhancing Quality-of-Experience in LLM-Based Text Streaming Services", arXiv 2404.16283).
    Its greedy packing by gain per context token is implemented, but its search for the batch size and its pacing client
    are not.
    """

    rank_is_fixed = False

    def __init__(
        self,
        ttft: float = 1.0,
        tpot: float = 0.1,
        horizon: float = 2.0,
        seconds_per_token: float = 0.02,
        max_preemptions: int = 1,
    ) -> None:
        require_positive(ttft=ttft, tpot=tpot, horizon=horizon, seconds_per_token=seconds_per_token)
        require_positive(max_preemptions=max_preemptions)
        self.ttft, self.tpot, self.horizon, self.seconds_per_token = ttft, tpot, horizon, seconds_per_token
        self.max_preemptions = max_preemptions
        self.now, self.block_size = 0.0, 1
        self.readings: dict[str, TokenSeconds] = {}

    def start_step(self, step: StepView) -> None:
        before, self.now, self.block_size = self.now, step.now, step.block_size
        live = (*step.running, *step.waiting)
        self.readings = {request.request_id: self.readings.get(request.request_id, TokenSeconds()) for request in live}
        for request in live:
            reading, since = self.readings[request.request_id], max(before, request.arrival_time)
            seconds, due = step.now - since, self.num_due(request, (step.now + since) / 2)
            reading.got += seconds * min(due, request.num_output_tokens)
            reading.expected += seconds * due

    def num_due(self, request: Request, time: float) -> float:
        """Return how many tokens the reader expects to have at `time`."""
        level = request.service_level
        ttft = level.ttft if isfinite(level.ttft) else self.ttft
        tpot = level.tpot if isfinite(level.tpot) else self.tpot
        late = time - request.arrival_time - ttft
        return min(1 + late / tpot, request.sampling_params.max_tokens) if late >= 0 else 0.0

    def gain(self, request: Request) -> float:
        """Return how much being served over the horizon raises the quality, per KV block."""
        reading, middle = self.readings.get(request.request_id, TokenSeconds()), self.now + self.horizon / 2
        due, got = self.num_due(request, middle), request.num_output_tokens
        served = min(due, got + self.horizon / 2 / self.seconds_per_token)
        expected = reading.expected + self.horizon * due
        quality = self.horizon * (served - min(due, got)) / expected if expected else 0.0
        return quality / self._num_blocks(request)

    def rank(self, request: Request) -> float:
        return -self.gain(request)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        first = min(step.waiting, key=self.rank, default=None)
        if first is None or self._num_blocks(first) <= step.num_free_blocks:
            return ()
        num_free, given = step.num_free_blocks, []
        for request in sorted(step.running[:0:-1], key=self.gain):
            if num_free >= self._num_blocks(first) or self.gain(request) >= self.gain(first):
                break
            if request.num_preemptions < self.max_preemptions:
                given.append(request)
                num_free += cdiv(request.num_computed_tokens, self.block_size)
        return given if num_free >= self._num_blocks(first) else ()

    def victims(self, running: list[Request]) -> list[Request]:
        # The longest-running request goes last: gains fluctuate, and this way at least one request is sure to finish.
        return [*sorted(running[:0:-1], key=self.gain), *running[:1]]

    def _num_blocks(self, request: Request) -> int:
        return cdiv(request.num_tokens, self.block_size)
