"""Shortest job first, and shortest remaining time first."""

from collections.abc import Sequence

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.predictors import Predict


class ShortestFirst(SchedulingPolicy):
    """Waiting requests in the order of what is left of their predicted output; the longest is preempted first.

    Minimises the mean time in the system if the predictions are right, and lets long outputs wait without a bound
    (Schrage 1968; for language models "Efficient LLM Scheduling by Learning to Rank", arXiv 2408.15792, where
    starving requests are promoted, which `Ageing` does here). With `preempts` a running request gives its slot to a
    waiting one that is at least `margin` times shorter: recomputing costs, so a little shorter is not enough.

    Raises `ValueError` for a margin under 1.
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
        return sorted(running, key=self.rank, reverse=True)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        if not self.preempts or len(step.running) < step.max_num_seqs:
            return ()
        chosen = []
        for waiting, running in zip(sorted(step.waiting, key=self.rank), self.victims([*step.running]), strict=False):
            if self.rank(running) < self.margin * max(1.0, self.rank(waiting)):
                break
            chosen.append(running)
        return chosen
