"""Shortest job first, and shortest remaining time first."""

from collections.abc import Sequence

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.joint_order import can_run, worst_first
from mini_vllm_labs.policies.predictors import Predict


class ShortestFirst(SchedulingPolicy):
    """Serves waiting requests by their remaining predicted output, shortest first, and preempts the longest.

    If the predictions are right, this minimises the mean time in the system, but long outputs may wait without bound
    (Schrage 1968). For language models, see "Efficient LLM Scheduling by Learning to Rank" (arXiv 2408.15792), which
    promotes starving requests; here, `Ageing` does that. With `preempts`, a running request gives way to a waiting
    request that is shorter by at least the factor `margin`, because recomputing has a cost.

    Raises `ValueError` for a margin less than 1.
    """

    def __init__(self, predict: Predict, *, preempts: bool = False, margin: float = 2.0) -> None:
        if not margin >= 1:
            raise ValueError(f"margin must be at least 1, got {margin}")
        self.predict = predict
        self.preempts = preempts
        self.margin = margin

    def rank(self, request: Request) -> float:
        return self.predict(request) - request.num_output_tokens

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        if not self.preempts:
            return ()
        takers = sorted(filter(can_run, step.waiting), key=self.rank)[step.max_num_seqs - len(step.running) :]
        pairs = zip(self.victims([*step.running]), takers, strict=False)
        return [holder for holder, taker in pairs if self.rank(holder) > self.margin * max(1.0, self.rank(taker))]
