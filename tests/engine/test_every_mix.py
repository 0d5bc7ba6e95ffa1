"""Every legal lineup of starter, solution and absent phases is built from the right parts, and runs."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import product

import pytest

from mini_vllm.assembly.lineup import CHECKOUT, Lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import SpeculativeConfig
from tests.engine.workloads import MAX_MODEL_LEN, make_engine, make_workload, run_workload, small_config, true_tokens

PHASES = {int(path.stem[len("phase")]): path.stem for path in (CHECKOUT / "solutions").glob("phase[1-578]_*.py")}
OURS = {phase: import_module(f"solutions.{name}") for phase, name in PHASES.items()}
YOURS = {phase: import_module(f"labs.{name}.starter") for phase, name in PHASES.items()}
IMPLS: tuple[Impl, ...] = ("starter", "solution", "absent")
COURSE_PARTS = ("kv", "preemption", "prefix_cache", "chunks")  # phases 2 to 5, under their names in the scheduler
CLASSES: dict[str, type] = {
    "kv": OURS[2].PagedKVCacheManager,
    "preemption": OURS[3].RecomputePreemption,
    "prefix_cache": OURS[4].HashPrefixCache,
    "chunks": OURS[5].ChunkedPrefillPolicy,
    "speculation": OURS[7].SpeculativeScheduling,
    "async_scheduling": OURS[8].PlaceholderScheduling,
}
STARTERS = dict(zip(CLASSES, (YOURS[phase] for phase in (2, 3, 4, 5, 7, 8)), strict=True))
# Subclasses that do not change anything: their class shows whether a part comes from a starter or from the reference.
YOUR_CLASSES = {part: type(f"Your{ours.__name__}", (ours,), {}) for part, ours in CLASSES.items()}
FUNCTIONS = (
    (YOURS[1], OURS[1], ("schedule_step", "update_from_output")),
    (YOURS[7], OURS[7], ("propose_by_lookup", "select_logits_rows", "accept_drafts", "rejection_sample")),
    (YOURS[8], OURS[8], ("correct_share",)),
)


def legal_mixes() -> Iterator[Lineup]:
    for impls in product(IMPLS, repeat=5):
        try:
            yield Lineup(*impls)
        except ValueError:
            continue


def class_of(part: str, impl: Impl) -> type | None:
    """Return the class that a lineup with this implementation must use for a part, or None if it is absent."""
    return {"starter": YOUR_CLASSES[part], "solution": CLASSES[part]}.get(impl)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fill the starters with their own classes and the reference's functions; return the calls to your `clamp`."""
    calls: list[str] = []

    def your_clamp(num_new: int, budget: int, threshold: int) -> int:
        calls.append("clamp")
        clamped: int = OURS[1].clamp(num_new, budget, threshold)
        return clamped

    monkeypatch.setattr(YOURS[1], "clamp", your_clamp)
    for yours, ours, names in FUNCTIONS:
        for name in names:
            monkeypatch.setattr(yours, name, getattr(ours, name))
    for part, starter in STARTERS.items():
        monkeypatch.setattr(starter, CLASSES[part].__name__, YOUR_CLASSES[part])
    return calls


def test_every_mix_runs_the_parts_it_names_and_generates_the_expected_tokens(calls: list[str]) -> None:
    workload = make_workload(0)
    truth = true_tokens(workload)
    drafts = SpeculativeConfig("draft_model", num_speculative_tokens=3, adaptive=False)
    mixes = list(product(legal_mixes(), product(IMPLS, repeat=2)))
    assert len(mixes) == 126 + 1008, "without electives and with them"
    for mix, (seventh, eighth) in mixes:
        lineup = replace(mix, speculation=seventh, async_scheduling=eighth)
        config = small_config(
            max_num_batched_tokens=MAX_MODEL_LEN if mix.chunking == "absent" else 9,
            num_gpu_blocks=80,
            speculative_config=None if seventh == "absent" else drafts,
            async_scheduling=eighth != "absent",
        )
        calls.clear()
        engine = make_engine(config, str(lineup))
        if (ahead := engine.scheduler.ahead) is None:
            for phase, part in enumerate(COURSE_PARTS, start=2):
                built = getattr(engine.scheduler, part)
                while hasattr(built, "inner"):
                    built = built.inner
                built, expected = type(built), class_of(part, lineup[phase])
                is_absent = expected is None and built.__module__ == "mini_vllm.core.absent"
                assert built is expected or is_absent, (str(lineup), part)
        electives = [getattr(ahead, part, None) for part in ("speculation", "async_scheduling")]
        classes = [None if part is None else type(part) for part in electives]
        assert classes == [class_of("speculation", seventh), class_of("async_scheduling", eighth)], str(lineup)
        assert run_workload(engine, workload).token_ids == truth, str(lineup)
        assert bool(calls) == (lineup.scheduler == "starter"), str(lineup)
