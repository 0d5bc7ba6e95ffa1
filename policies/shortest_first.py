"""Shortest job first, by predicted output lengths."""

from collections.abc import Sequence

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import outranked, worst_first
from policies.predictors import Predict


class ShortestFirst(SchedulingPolicy):
    """The request with the fewest predicted output tokens still to come first; the longest is preempted.

    With `preempts` it is shortest remaining time first: when all slots are in use, a shorter waiting request takes the
    slot of a longer running one. Any function of a request predicts. From learning to rank ("Efficient LLM Scheduling
    by Learning to Rank", arXiv 2408.15792) come order by prediction and preemption, not the guard against starvation.
    """

    def __init__(self, predict: Predict, preempts: bool = False) -> None:
        self.predict = predict
        self.preempts = preempts

    def rank(self, request: Request) -> float:
        return self.predict(request) - request.num_output_tokens

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return outranked(step, self.rank) if self.preempts else ()

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)
