"""What phases 7 and 8 leave to no other phase: late blocks in the prefix cache, and victims without drafts."""

from functools import partial

import pytest

from mini_vllm.core.absent import WholePrompts
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.tokens_ahead import ChunksAhead, TokensAhead
from solutions.phase1_scheduler_step import clamp, update_from_output
from solutions.phase2_block_pool import PagedKVCacheManager
from solutions.phase4_prefix_cache import HashPrefixCache
from solutions.phase7_speculative_decoding import SpeculativeScheduling
from solutions.phase8_async_scheduling import PlaceholderScheduling


def test_blocks_that_late_tokens_fill_can_be_hit_before_their_request_is_scheduled_again() -> None:
    cache = HashPrefixCache(4)
    ahead = TokensAhead(
        SpeculativeScheduling(3, drafter_has_kv_cache=False),
        PlaceholderScheduling(3),
        64,
        chunks=WholePrompts(clamp),
        kv=PagedKVCacheManager(9, 4, cache),
        prefix_cache=cache,
    )
    kv = ahead.kv
    request, plan = Request("A", [1, 2, 3]), SchedulerOutput(16, {"A": 6})
    request.admit(0)
    table = kv.allocate_slots(request, 6)
    request.spec_token_ids = [-1, -1, -1]
    request.advance(6)
    ahead.after_schedule(plan, {"A": request})
    assert (plan.scheduled_spec_decode_tokens, request.num_output_placeholders) == ({"A": [-1, -1, -1]}, 4)
    assert kv.get_computed_blocks(Request("B", [1, 2, 3, 4, 5, 6])) == []
    requests, apply = {"A": request}, partial(update_from_output, running=[request], max_model_len=64, kv=kv)
    ahead.update(
        plan, {"A": [4, 5, 6]}, requests, FCFSRequestQueue(), lambda part, sampled: apply(part, sampled, requests)
    )
    assert (request.num_computed_tokens, request.num_output_placeholders) == (5, 0)
    assert table is not None
    assert kv.get_computed_blocks(Request("B", [1, 2, 3, 4, 5, 6])) == table[:1]


@pytest.mark.parametrize(("max_model_len", "granted"), [(64, 5), (6, 3), (4, 1)])
def test_phase_5_is_asked_with_the_requests_own_counter(max_model_len: int, granted: int) -> None:
    request = Request("A", [1, 2, 3])
    request.admit(2)
    request.spec_token_ids = [4, 5, 6, 7]
    asked: list[tuple[int, int]] = []

    class Policy(WholePrompts):
        def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
            asked.append((request.num_tokens, num_computed_tokens))
            return super().num_new_tokens(request, num_computed_tokens, token_budget)

    chunks = ChunksAhead(Policy(clamp), max_model_len, None)
    assert chunks.num_new_tokens(request, 2, 16) == granted
    assert asked == [(2 + granted, 2)]
    assert chunks.num_new_tokens(request, 2, 1) == 1, "some of the drafts are better than no token"
    assert (request.num_tokens, request.spec_token_ids) == (3, [4, 5, 6, 7])


def test_a_victim_loses_its_drafts() -> None:
    request = Request("A", [1, 2, 3])
    request.admit(0)
    request.spec_token_ids = [4, 5]
    request.preempt()
    assert request.spec_token_ids == []
