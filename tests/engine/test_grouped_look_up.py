"""With layer groups, a prefix lookup finds phase 4's blocks without a call for each block."""

import random
from collections.abc import Iterator

import pytest

from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step_checks import InvariantError
from mini_vllm.electives.windows.grouped_kv_cache import GroupedKVCacheManager
from mini_vllm.electives.windows.grouped_prefix_cache import NamedBlocks
from mini_vllm.sampling_params import SamplingParams

LINEUP, BLOCK_SIZE = parse_lineup("solution:1-5,solution:12"), 4


def steps(windows: tuple[int | None, ...], num_blocks: int, seed: int) -> Iterator[GroupedKVCacheManager]:
    """Yield the KV cache after each step of a low-memory run with shared prefixes and aborts."""
    config = EngineConfig(
        max_num_seqs=4, max_num_batched_tokens=64, max_model_len=96, num_gpu_blocks=num_blocks, block_size=BLOCK_SIZE
    )
    scheduler, rng = build_scheduler(config, LINEUP, windows=windows), random.Random(seed)
    for number in range(60):
        prompt = [rng.randrange(3)] * rng.randrange(1, 30) + [rng.randrange(2) for _ in range(rng.randrange(1, 30))]
        scheduler.add_request(Request(f"r{number}", prompt, SamplingParams(max_tokens=rng.randrange(1, 30))))
        step = scheduler.schedule()
        scheduler.update_from_output(step, {name: [rng.randrange(2)] for name in step.num_scheduled_tokens})
        if scheduler.running and rng.random() < 0.2:
            scheduler.finish_request(scheduler.running[0].request_id, RequestStatus.FINISHED_ABORTED)
        assert isinstance(scheduler.kv, GroupedKVCacheManager)
        yield scheduler.kv


def named_by_phase_4(named: NamedBlocks) -> dict[bytes, int]:
    answers = {}
    for block_hash in set(named.cache.cached_blocks().values()):
        asking = Request("", [0] * (BLOCK_SIZE + 1))
        asking.block_hashes = [block_hash]
        [answers[block_hash]] = named.cache.find_longest_cache_hit(asking)
    return answers


@pytest.mark.parametrize("windows", [(None, 12), (12,)])
def test_named_blocks_equal_those_of_phase_4(windows: tuple[int | None, ...]) -> None:
    num_evicted = 0
    before: list[dict[bytes, int]] = []
    for groups in steps(windows, 60, seed=len(windows)):
        assert groups.grouped is not None
        now = [named_by_phase_4(named) for named in groups.grouped.named]
        assert [named.of_hash for named in groups.grouped.named] == now
        num_evicted += sum(len(old.keys() - new.keys()) for old, new in zip(before, now, strict=bool(before)))
        before = now
    assert num_evicted  # memory ran short


def test_a_look_up_does_not_ask_for_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, groups = steps((None, 12), 200, seed=3)
    assert groups.grouped is not None
    asked = list[Request]()
    for named in groups.grouped.named:
        monkeypatch.setattr(named.cache, "find_longest_cache_hit", asked.append)
    looking = Request("looking", [1] * 29 + [0] * 30)
    groups.get_computed_blocks(looking)
    assert len(looking.block_hashes) == 14
    assert asked == []


def test_a_hit_in_a_block_of_a_different_prefix_is_refused() -> None:
    *_, groups = steps((None, 12), 200, seed=3)
    assert groups.grouped is not None
    named = groups.grouped.named[0]
    looking = Request("looking", [1] * 29 + [0] * 30)
    first, *_ = groups.get_computed_blocks(looking)
    named.of_hash[looking.block_hashes[0]] = next(one for one in named.of_hash.values() if one != first)
    with pytest.raises(InvariantError, match="holds a different prefix"):
        groups.allocate_slots(looking, 8, groups.get_computed_blocks(looking))
