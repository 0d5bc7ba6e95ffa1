"""What phases 7 and 8 leave to no other phase: late blocks in the prefix cache, and victims without drafts."""

from functools import partial

from mini_vllm.core.absent import WholePrompts
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.tokens_ahead import TokensAhead
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


def test_a_victim_loses_its_drafts() -> None:
    request = Request("A", [1, 2, 3])
    request.admit(0)
    request.spec_token_ids = [4, 5]
    request.preempt()
    assert request.spec_token_ids == []
