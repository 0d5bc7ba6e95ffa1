"""Gives more drafts to requests that need their tokens fast."""

from collections.abc import Mapping

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView

DEFAULT_LIMITS = {"urgent": 8, "normal": 2, "batch": 0}


class DraftsByClass(SchedulingPolicy):
    """Limits a request's drafts per step by its service level; levels without a limit get `others`.

    The idea comes from AdaServe ("SLO-customized speculation", arXiv 2501.12162). Drafts cost computation that all
    requests in a step share, so requests with a tight limit per token get many drafts and the other requests get few.
    AdaServe chooses tokens of a draft tree by their probability of acceptance; here each class has a fixed number of
    drafts, and the first drafts are kept. AdaServe does not group requests by class, although some write-ups claim that
    it does.

    Raises `ValueError` for a negative limit.
    """

    def __init__(self, limits: Mapping[str, int] = DEFAULT_LIMITS, others: int = 2) -> None:
        for name, limit in (*limits.items(), ("others", others)):
            if limit < 0:
                raise ValueError(f"the draft limit for {name!r} must be at least 0, got {limit}")
        self.limits, self.others = dict(limits), others

    def limit(self, request: Request) -> int:
        return self.limits.get(request.service_level.name, self.others)

    def start_step(self, step: StepView) -> None:
        for request in step.running:
            if len(request.spec_token_ids) > self.limit(request):
                request.spec_token_ids = request.spec_token_ids[: self.limit(request)]
