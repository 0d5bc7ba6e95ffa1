"""Drafts for the next step, after the tokens of this one are known."""

from collections.abc import Collection, Mapping, Sequence

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.request import Request
from mini_vllm.seams.electives import DraftLength, SpeculationFunctions


class Drafter:
    """Proposes tokens by looking up the newest ones in the request's own text (vLLM: `NgramProposer`).

    Counts what becomes of the drafts: `num_accepted_tokens_per_pos[i]` is how often draft i was accepted.
    """

    def __init__(self, config: SpeculativeConfig, functions: SpeculationFunctions, max_model_len: int) -> None:
        self.config = config
        self.functions = functions
        self.max_model_len = max_model_len
        self.num_drafts = 0
        self.num_draft_tokens = 0
        self.num_accepted_tokens_per_pos = [0] * config.num_speculative_tokens
        self._lengths: dict[str, DraftLength] = {}

    def observe(self, drafts: Mapping[str, Sequence[int]], sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        """Note how many of a step's drafts were accepted."""
        for request_id, draft_token_ids in drafts.items():
            if request_id not in sampled_token_ids:
                continue
            num_accepted = len(sampled_token_ids[request_id]) - 1
            self.num_drafts += 1
            self.num_draft_tokens += len(draft_token_ids)
            for position in range(num_accepted):
                self.num_accepted_tokens_per_pos[position] += 1
            if length := self._lengths.get(request_id):
                length.observe(len(draft_token_ids), num_accepted)

    def propose(self, sampled: Collection[str], unfinished: Mapping[str, Request]) -> dict[str, list[int]]:
        """Return drafts by request id, for the unfinished requests among those that have sampled in this step."""
        if len(self._lengths) > len(unfinished):
            self._lengths = {name: length for name, length in self._lengths.items() if name in unfinished}
        if self.config.disable_by_batch_size is not None and len(sampled) > self.config.disable_by_batch_size:
            return {}
        drafts = {name: self._propose(unfinished[name]) for name in sampled if name in unfinished}
        return {name: draft_token_ids for name, draft_token_ids in drafts.items() if draft_token_ids}

    def _propose(self, request: Request) -> list[int]:
        most = self.config.num_speculative_tokens
        if self.config.adaptive:
            if request.request_id not in self._lengths:
                self._lengths[request.request_id] = self.functions.make_draft_length(most)
            most = self._lengths[request.request_id].next_length()
        # A step brings one token more than drafts; what lies behind the last possible token is never kept.
        most = min(most, request.max_total_tokens(self.max_model_len) - request.num_tokens - 1)
        if most <= 0:
            return []
        lookup = self.functions.propose_by_lookup
        return lookup(request.all_token_ids, most, self.config.prompt_lookup_min, self.config.prompt_lookup_max)
