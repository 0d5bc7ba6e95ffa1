"""The fake model of the recordings: its tokens are a fixed function of request and position."""

from collections import Counter
from collections.abc import Sequence
from zlib import crc32

from course.parity.scenario import Scenario
from mini_vllm.core.step import ScheduledRequest


class RecordedModel:
    """Samples as `traces/README.md` describes: from where a request's last sampled token was, preempted or not."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.num_sampled: Counter[str] = Counter()

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> dict[str, list[int]]:
        """Return the tokens of the requests that sample: one, and one for each accepted draft."""
        return {one.request.request_id: self._sample(one) for one in batch if one.needs_token}

    def _sample(self, scheduled: ScheduledRequest) -> list[int]:
        request_id = scheduled.request.request_id
        first = self.num_sampled[request_id]
        last = first + self._num_accepted(request_id, first, scheduled.draft_token_ids)
        tokens = [self.scenario.output(request_id, index) for index in range(first, last + 1)]
        self.num_sampled[request_id] += len(tokens)
        return tokens

    def _num_accepted(self, request_id: str, first: int, drafts: Sequence[int]) -> int:
        if not drafts:
            return 0
        if self.scenario.line["config"]["async_scheduling"]:  # stand-ins: how many are right was made up
            accept = self.scenario.line["drafts"]["accept"]
            return min(len(drafts), int(accept[(crc32(f"d{request_id}:{first}".encode()) >> 8) % len(accept)]))
        wrong = (k for k, draft in enumerate(drafts) if draft != self.scenario.output(request_id, first + k))
        return next(wrong, len(drafts))
