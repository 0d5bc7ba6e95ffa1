"""Runs phases 7 and 8 in simulated time: drafts for the fake model, and a step in flight without threads."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any
from zlib import crc32

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.overlapping_engine import OverlappingEngine
from mini_vllm.engine.runner_thread import RunnerThread
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation

WRONG_ONE_IN = 4


class MostlyRightDrafts:
    """Proposes the fake model's next tokens, one in four of them wrong, because prompt lookup would find nothing."""

    def __init__(self) -> None:
        self.draft_probs: dict[str, Any] = {}

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return a constant (see `Proposer`)."""
        return 0.01

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        """Return drafts keyed by request id; see `Proposer`."""
        drafts = {}
        for request in (scheduled.request for scheduled in batch if scheduled.request.request_id in num_drafts):
            text = [*request.all_token_ids, *sampled_token_ids[request.request_id]]
            right = fake_continuation(text, num_drafts[request.request_id], LETTERS)
            drafts[request.request_id] = [
                # Depends only on id and position, so that the same drafts are wrong in every lineup.
                token_id ^ (crc32(f"{request.request_id}:{place}".encode()) % WRONG_ONE_IN == 0)
                for place, token_id in enumerate(right, start=len(text))
            ]
        return drafts


class ComputedWhenAsked(Future[ModelRunnerOutput]):
    """Computes only in `result()`, after the next step has been planned, to imitate two threads."""

    def __init__(self, compute: Callable[[], ModelRunnerOutput]) -> None:
        super().__init__()
        self.compute = compute

    def result(self, timeout: float | None = None) -> ModelRunnerOutput:
        if not self.done():
            self.set_result(self.compute())
        return super().result(timeout)


class NoThread(RunnerThread):
    """Computes in the calling thread, so that a simulated clock shows the same time in every run."""

    def start(self, runner: ModelRunner, batch: Sequence[ScheduledRequest]) -> Future[ModelRunnerOutput]:
        tokens = self._tokens
        own = tokens.hand_over(batch)
        return ComputedWhenAsked(lambda: tokens.execute_model(runner, own))


def simulate_electives(engine: LLMEngine, *, has_fake_model: bool) -> None:
    if isinstance(engine.runner, DraftingRunner) and has_fake_model:
        engine.runner.proposer = MostlyRightDrafts()
    if isinstance(engine, OverlappingEngine):
        engine.runner_thread = NoThread(engine.runner_thread.correct_share)
