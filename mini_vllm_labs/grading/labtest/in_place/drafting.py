"""Provides the proposer and the model of an engine with drafts. This file contains no tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm.runner.fake_model_runner import FakeModelRunner, fake_continuation
from mini_vllm_labs.grading.labtest.in_place.neighbours import drawn

LETTERS = b"\0ab"  # few letters, so that texts repeat themselves and lookup finds drafts
NUM_SHARES = 8


class Guesses:
    """A proposer that knows the fake model and makes mistakes at pseudorandom positions. With `draws`, the drafts are
    drawn at random."""

    def __init__(self, *, draws: bool) -> None:
        self.draws = draws
        self.draft_probs: dict[str, Any] = {}

    def cost_of_a_draft(self, num_requests: int) -> float:
        return 0.1

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        drafts: dict[str, list[int]] = {}
        for one in batch:
            name = one.request.request_id
            text = [*one.request.all_token_ids, *sampled_token_ids.get(name, ())]
            right = fake_continuation(text, num_drafts.get(name, 0), LETTERS)
            errs = [drawn(text[-3:], place) % 5 == 0 for place in range(len(right))]
            drafts[name] = [LETTERS[0] if wrong else token for token, wrong in zip(right, errs, strict=True)]
            if self.draws and right:
                drafts[name] = [token if token in LETTERS[:2] else LETTERS[0] for token in drafts[name]]
                self.draft_probs[name] = shares_of([text + drafts[name][:place] for place in range(len(right))], 2)
        return drafts


def shares_of(texts: Sequence[Sequence[int]], salt: int) -> Any:
    """Return a distribution over the first two letters for each text, as a tensor wide enough for both letters' ids."""
    import torch

    shares = torch.zeros(len(texts), max(LETTERS) + 1, dtype=torch.float64)
    for row, text in zip(shares, texts, strict=True):
        for letter in LETTERS[:2]:
            row[letter] = 1 + drawn(list(text[-4:]), letter, salt) % NUM_SHARES
    return shares / shares.sum(dim=-1, keepdim=True)


class RowsRunner(FakeModelRunner):
    """The fake model with one row per token of a step; phase 7 selects the rows to sample."""

    def __init__(self, num_blocks: int, block_size: int, functions: SpeculationFunctions) -> None:
        super().__init__(num_blocks, block_size, LETTERS)
        self.functions = functions

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        shares = [one.with_drafts() for one in batch]
        for one in shares:
            self._write(one)
        tokens = [
            (one, one.num_computed_tokens + number + 1) for one in shares for number in range(one.num_scheduled_tokens)
        ]
        wanted = [one for one in shares if one.needs_token for _ in range(len(one.draft_token_ids) + 1)]
        sampled: dict[str, list[int]] = {}
        for one, row in zip(wanted, self.functions.select_logits_rows(shares), strict=True):
            sampled.setdefault(one.request.request_id, []).append(self._next_token(*tokens[row]))
        for one in shares:
            if one.needs_token and one.draft_token_ids:
                name = one.request.request_id
                sampled[name] = self._accepted(one, sampled[name])
        return ModelRunnerOutput(sampled)

    def _accepted(self, one: ScheduledRequest, sampled: list[int]) -> list[int]:
        drafts, name = list(one.draft_token_ids), one.request.request_id
        if one.draft_probs is None:
            return list(self.functions.accept_drafts(drafts, sampled))
        ends = range(len(one.request.all_token_ids) - len(drafts), len(one.request.all_token_ids) + 1)
        target = shares_of([one.request.all_token_ids[:end] for end in ends], 1)
        # With two letters, only one can have a surplus. The last row makes one letter certain, because the letters may
        # appear in any order.
        target[-1] = 0
        target[-1, LETTERS[len(drafts) % 2]] = 1
        draws = [(drawn(name, end, "keep") / 2**32, drawn(name, end, "choose") / 2**32) for end in ends]
        return list(self.functions.rejection_sample(drafts, one.draft_probs, target, draws))
