"""Every legal lineup of starter, solution and absent phases is built from the right parts, and runs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from labs.phase1_scheduler_step import starter as yours1
from labs.phase2_block_pool import starter as yours2
from labs.phase3_preemption import starter as yours3
from labs.phase4_prefix_cache import starter as yours4
from labs.phase5_chunked_prefill import starter as yours5
from labs.phase7_speculative_decoding import starter as yours7
from labs.phase8_async_scheduling import starter as yours8
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import SpeculativeConfig
from solutions import phase1_scheduler_step as ours1
from solutions import phase2_block_pool as ours2
from solutions import phase3_preemption as ours3
from solutions import phase4_prefix_cache as ours4
from solutions import phase5_chunked_prefill as ours5
from solutions import phase7_speculative_decoding as ours7
from solutions import phase8_async_scheduling as ours8
from tests.engine.workloads import MAX_MODEL_LEN, make_engine, make_workload, run_workload, small_config, true_tokens

IMPLS: tuple[Impl, ...] = ("starter", "solution", "absent")
COURSE_PARTS = ("kv", "preemption", "prefix_cache", "chunks")  # phases 2 to 5, by their names in the scheduler
CLASSES: dict[str, type] = {
    "kv": ours2.PagedKVCacheManager,
    "preemption": ours3.RecomputePreemption,
    "prefix_cache": ours4.HashPrefixCache,
    "chunks": ours5.ChunkedPrefillPolicy,
    "speculation": ours7.SpeculativeScheduling,
    "async_scheduling": ours8.PlaceholderScheduling,
}
STARTERS = dict(zip(CLASSES, (yours2, yours3, yours4, yours5, yours7, yours8), strict=True))
# Subclasses that change nothing: a starter's part can be told from the reference by its class.
YOUR_CLASSES = {part: type(f"Your{ours.__name__}", (ours,), {}) for part, ours in CLASSES.items()}
FUNCTIONS = (
    (yours1, ours1, ("schedule_step", "update_from_output")),
    (yours7, ours7, ("propose_by_lookup", "select_logits_rows", "accept_drafts", "rejection_sample")),
    (yours8, ours8, ("correct_share",)),
)


def legal_mixes() -> Iterator[Lineup]:
    """Yield every legal mix of phases 1 to 5; phase 6 triples them."""
    for impls in product(IMPLS, repeat=5):
        try:
            yield Lineup(*impls)
        except ValueError:
            continue


def class_of(part: str, impl: Impl) -> type | None:
    """Return the class of a part that a lineup with this implementation must have; None if it is absent."""
    return {"starter": YOUR_CLASSES[part], "solution": CLASSES[part]}.get(impl)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fill the starters with their own classes and the reference's functions; return the calls of your `clamp`."""
    calls: list[str] = []

    def your_clamp(num_new: int, budget: int, threshold: int) -> int:
        calls.append("clamp")
        return ours1.clamp(num_new, budget, threshold)

    monkeypatch.setattr(yours1, "clamp", your_clamp)
    for yours, ours, names in FUNCTIONS:
        for name in names:
            monkeypatch.setattr(yours, name, getattr(ours, name))
    for part, starter in STARTERS.items():
        monkeypatch.setattr(starter, CLASSES[part].__name__, YOUR_CLASSES[part])
    return calls


def test_every_mix_runs_the_parts_it_names_and_generates_the_expected_tokens(calls: list[str]) -> None:
    workload = make_workload(0)
    truth = true_tokens(workload)
    for lineup in legal_mixes():
        calls.clear()
        budget = MAX_MODEL_LEN if lineup.chunking == "absent" else 9
        engine = make_engine(small_config(max_num_batched_tokens=budget, num_gpu_blocks=80), str(lineup))
        for phase, part in enumerate(COURSE_PARTS, start=2):
            built, expected = type(getattr(engine.scheduler, part)), class_of(part, lineup[phase])
            is_absent = expected is None and built.__module__ == "mini_vllm.core.absent"
            assert built is expected or is_absent, (str(lineup), part)
        assert run_workload(engine, workload).token_ids == truth, str(lineup)
        assert bool(calls) == (lineup.scheduler == "starter"), str(lineup)


@pytest.mark.usefixtures("calls")
def test_every_mix_with_electives_generates_the_expected_tokens() -> None:
    workload = make_workload(0)
    truth = true_tokens(workload)
    drafts = SpeculativeConfig("draft_model", num_speculative_tokens=3, adaptive=False)
    mixes = list(product(legal_mixes(), list(product(IMPLS, repeat=2))[:-1]))
    assert len(mixes) == 1008
    for mix, (seventh, eighth) in mixes:
        lineup = replace(mix, speculation=seventh, async_scheduling=eighth)
        config = small_config(
            max_num_batched_tokens=MAX_MODEL_LEN if mix.chunking == "absent" else 9,
            num_gpu_blocks=80,
            speculative_config=None if seventh == "absent" else drafts,
            async_scheduling=eighth != "absent",
        )
        engine = make_engine(config, str(lineup))
        ahead = engine.scheduler.ahead
        assert ahead is not None
        built = [None if part is None else type(part) for part in (ahead.speculation, ahead.async_scheduling)]
        assert built == [class_of("speculation", seventh), class_of("async_scheduling", eighth)], str(lineup)
        assert run_workload(engine, workload).token_ids == truth, str(lineup)
