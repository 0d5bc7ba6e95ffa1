"""The rules of a release after 0.13.0 change no text, and settings that a release does not support are rejected."""

from typing import Any

import pytest

from mini_vllm import LLM, parse_lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.electives.releases.reset import reset_prefix_cache, set_pause_state
from mini_vllm.electives.releases.step_state import PauseState
from mini_vllm.release_rules import RELEASES
from tests.engine.workloads import make_engine, make_workload, run_workload, small_config, true_tokens

PLAIN = "solution:1-5,solution:14"
NGRAM = SpeculativeConfig("ngram", num_speculative_tokens=3, adaptive=False)
DRAFT_MODEL = SpeculativeConfig("draft_model", num_speculative_tokens=2, adaptive=False)


@pytest.mark.parametrize(
    ("lineup", "settings"),
    [
        (PLAIN, {}),
        (PLAIN, {"policy": "priority", "long_prefill_token_threshold": 5}),
        (PLAIN, {"scheduler_reserve_full_isl": False, "watermark": 0.1, "prefill_schedule_interval": 3}),
        (PLAIN, {"enable_prefix_caching": False, "max_num_active_seqs": 2, "max_num_scheduled_tokens": 7}),
        ("solution:1-3,solution:5,solution:14", {}),
        ("solution:1-5,solution:8-9,solution:14", {"async_scheduling": True}),
        ("solution:1-5,solution:7,solution:14", {"speculative_config": NGRAM}),
        ("solution:1-5,solution:7,solution:14", {"speculative_config": DRAFT_MODEL, "policy": "priority"}),
        ("solution:1-5,solution:7-8,solution:14", {"speculative_config": NGRAM, "async_scheduling": True}),
        ("solution:1-5,solution:7-8,solution:14", {"speculative_config": DRAFT_MODEL, "async_scheduling": True}),
    ],
)
def test_texts_are_equal_under_every_release(lineup: str, settings: dict[str, Any]) -> None:
    num_preemptions = 0
    for seed in range(12):
        workload = make_workload(seed)
        config = small_config(num_gpu_blocks=14, max_num_batched_tokens=9, vllm="0.33.0", **settings)
        run = run_workload(make_engine(config, lineup), workload)
        assert run.token_ids == true_tokens(workload), seed
        num_preemptions += run.num_preemptions
    assert num_preemptions > 0 or "async_scheduling" not in settings


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"vllm": "0.14.0"}, "vllm must be one of the releases 0.13.0, 0.33.0; got '0.14.0'"),
        ({"watermark": 0.1}, "vLLM 0.13.0 does not support watermark, which is set to 0.1: it was added in 0.24"),
        ({"scheduler_reserve_full_isl": True}, "vLLM 0.13.0 does not support scheduler_reserve_full_isl"),
        (
            {"speculative_config": SpeculativeConfig(disable_eagle_block_drop=True)},
            "vLLM 0.13.0 does not support disable_eagle_block_drop",
        ),
        ({"vllm": "0.33.0", "watermark": 1.0}, "watermark must be at least 0 and less than 1, got 1.0"),
        (
            {"vllm": "0.33.0", "prefill_schedule_interval": 0},
            "prefill_schedule_interval must be an integer of at least",
        ),
        ({"vllm": "0.33.0", "prefix_cache_retention_interval": -1}, "prefix_cache_retention_interval must be"),
        ({"vllm": "0.33.0", "max_model_len": 8, "long_prefill_token_threshold": 9}, "at most max_model_len"),
    ],
)
def test_settings_unknown_to_a_release_are_refused(settings: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=refused):
        EngineConfig(**settings)


def test_a_drafter_that_no_runner_has_is_refused() -> None:
    with pytest.raises(ValueError, match="because no runner supports 'eagle'"):
        make_engine(small_config(speculative_config=SpeculativeConfig("eagle")), "solution:1-5,solution:7")


def test_rules_about_blocks_need_a_block_pool() -> None:
    with pytest.raises(ValueError, match=r"vllm='0\.33\.0' needs phase 2"):
        make_engine(small_config(vllm="0.33.0"), "solution:1,solution:14")


def test_a_pause_admits_nothing_and_a_reset_forgets_what_is_cached() -> None:
    engine = make_engine(small_config(vllm="0.33.0"), PLAIN)
    engine.add_request("a", list(range(9)))
    engine.step()
    set_pause_state(engine.scheduler, PauseState.PAUSED_NEW)
    engine.add_request("b", list(range(9)))
    engine.step()
    assert [request.request_id for request in engine.scheduler.running] == ["a"]
    engine.scheduler.restart()
    engine.step()
    assert engine.scheduler.running == [], "a restart ends no pause"
    set_pause_state(engine.scheduler, PauseState.UNPAUSED)
    engine.step()
    set_pause_state(engine.scheduler, PauseState.PAUSED_NEW)
    assert not reset_prefix_cache(engine.scheduler)
    assert reset_prefix_cache(engine.scheduler, reset_running_requests=True)
    assert (engine.scheduler.running, engine.scheduler.prefix_cache.cached_blocks()) == ([], {})
    set_pause_state(engine.scheduler, PauseState.UNPAUSED)
    engine.step()
    assert [request.request_id for request in engine.scheduler.running] == ["a", "b"]


@pytest.mark.parametrize("release", RELEASES)
def test_an_llm_empties_its_prefix_cache_between_requests(release: str) -> None:
    llm = LLM(config=EngineConfig(vllm=release), lineup=parse_lineup(PLAIN))
    during: list[bool] = []
    for _ in range(2):
        llm.generate(["the same words " * 9], on_step=lambda outputs: during.append(llm.reset_prefix_cache()))
        assert llm.engine.scheduler.prefix_cache.cached_blocks() == {}
    assert during[0] is False
    assert during[-1] is True


def test_a_pause_is_refused_under_the_rules_of_0_13_0() -> None:
    with pytest.raises(ValueError, match="need a release later than vLLM 0"):
        set_pause_state(make_engine(small_config()).scheduler, PauseState.PAUSED_ALL)
