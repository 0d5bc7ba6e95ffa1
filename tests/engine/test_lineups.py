"""Tests which lineups are legal, and that all of them generate the same tokens."""

import os
import re
from dataclasses import fields
from itertools import combinations, product
from typing import Any, get_args

import pytest

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.elective_parts import (
    admission_functions_for,
    kv_transfer_functions_for,
    release_functions_for,
    structured_output_functions_for,
    window_functions_for,
)
from mini_vllm.assembly.lineup import Lineup, default_lineup_text, lineup_from_env, parse_lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import EngineConfig, KVTransferConfig, SpeculativeConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.engine.errors import StalledError
from tests.engine.workloads import (
    MAX_MODEL_LEN,
    Run,
    make_engine,
    make_workload,
    run_workload,
    small_config,
    true_tokens,
)

ALL_COMBINATIONS = list(product(get_args(Impl), repeat=6))
SEEDS = range(40)
SUBSETS = [phases for size in range(5) for phases in combinations((2, 3, 4, 5), size) if 4 not in phases or 2 in phases]
LONGEST_IN_BLOCKS = cdiv(MAX_MODEL_LEN - 1, 4)
DRAWN = SpeculativeConfig("draft_model", draft_sample_method="probabilistic")
GATES = "needs phase 11 (admission gates), as in LAB_IMPL=solution:1-6,solution:11"


def lineup_of(phases: tuple[int, ...]) -> str:
    return ",".join(f"solution:{phase}" for phase in (1, *phases))


def config_of(phases: tuple[int, ...], **settings: Any) -> EngineConfig:
    """Small budgets and a threshold need phase 5: without it, a long prompt would never fit."""
    chunked = {"max_num_batched_tokens": 14, "long_prefill_token_threshold": 6} if 5 in phases else {}
    return small_config(max_num_seqs=4, **(chunked | settings))


def run_all(phases: tuple[int, ...], config: EngineConfig) -> tuple[list[Run], int]:
    runs, num_stalled = [], 0
    for seed in SEEDS:
        workload = make_workload(seed)
        try:
            run = run_workload(make_engine(config, lineup_of(phases)), workload)
        except StalledError:
            num_stalled += 1
            continue
        assert run.token_ids == true_tokens(workload), f"seed {seed}"
        runs.append(run)
    return runs, num_stalled


@pytest.mark.parametrize(
    ("text", "impls"),
    [
        ("solution", ["solution"] * 6),
        (" starter ", ["starter"] * 6),
        ("solution:1-6", ["solution"] * 6),
        ("starter:1", ["starter"] + ["absent"] * 5),
        ("starter:1-3,solution:4-6", ["starter"] * 3 + ["solution"] * 3),
        (" solution:2 , starter : 1-1", ["starter", "solution"] + ["absent"] * 4),
        ("solution:5,solution:1", ["solution", "absent", "absent", "absent", "solution", "absent"]),
        ("starter:1-7", ["starter"] * 7),
        ("starter:1-14", ["starter"] * 14),
        ("solution:1-6,starter:7", ["solution"] * 6 + ["starter"]),
        ("solution:1-6,starter:8", ["solution"] * 6 + ["absent", "starter"]),
    ],
)
def test_every_form_of_a_lineup_is_parsed(text: str, impls: list[Impl]) -> None:
    assert parse_lineup(text) == Lineup(*impls)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' does not name any phases; write it like 'starter:1-3'"),
        ("teacher", "'teacher' does not name any phases"),
        ("solution:1,starter", "'starter' does not name any phases"),
        ("teacher:1", "an implementation must be 'starter' or 'solution', got 'teacher'"),
        ("absent:1", "an implementation must be 'starter' or 'solution', got 'absent'"),
        ("solution:", "'' is not a phase (1 to 14) or a range such as 1-3"),
        ("solution:one", "'one' is not a phase (1 to 14) or a range such as 1-3"),
        ("solution:1-x", "'1-x' is not a phase (1 to 14) or a range such as 1-3"),
        ("solution:-3", "'-3' is not a phase (1 to 14) or a range such as 1-3"),
        ("solution:0", "'0' must be within phases 1 to 14"),
        ("solution:1-15", "'1-15' must be within phases 1 to 14"),
        ("solution:3-2", "'3-2' must be within phases 1 to 14"),
        ("solution:1-3,starter:3", "phase 3 is listed twice"),
        ("solution:2-6", "phase 1 (scheduler step) is required"),
        ("solution:1,starter:4", "phase 4 (prefix cache) needs phase 2 (block pool)"),
    ],
)
def test_a_wrong_lineup_is_refused_with_the_wrong_part(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_lineup(text)


def test_of_729_combinations_378_are_legal_and_the_others_give_a_reason() -> None:
    legal, reasons = [], []
    for impls in ALL_COMBINATIONS:
        try:
            legal.append(Lineup(*impls))
        except ValueError as error:
            reasons.append((impls, str(error)))
    assert (len(legal), len(reasons)) == (378, 351)
    for impls, reason in reasons:
        expected = "phase 1 (scheduler step) is required" if impls[0] == "absent" else "needs phase 2 (block pool)"
        assert expected in reason
    assert all(parse_lineup(str(lineup)) == lineup for lineup in legal)


def test_a_lineup_of_an_unknown_implementation_names_the_phase() -> None:
    with pytest.raises(ValueError, match="phase 2 must be one of starter, solution, absent; got 'teacher'"):
        Lineup("solution", "teacher")  # type: ignore[arg-type]


def test_the_default_is_the_reference_and_the_environment_overrides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_lineup_text() == "solution"
    assert lineup_from_env() == parse_lineup("solution")
    monkeypatch.setitem(os.environ, "LAB_IMPL", "starter:1")
    assert lineup_from_env() == parse_lineup("starter:1")


@pytest.mark.parametrize(
    ("lineup", "settings", "message"),
    [
        ("solution:1-2", {"policy": "priority"}, "policy 'priority' needs phase 3 (preemption)"),
        (
            "solution:1-4",
            {"max_num_batched_tokens": 39},
            "max_num_batched_tokens must be at least max_model_len (40) because phase 5 (chunked prefill) is absent",
        ),
        ("solution:1-5", {"speculative_config": SpeculativeConfig()}, "speculative_config needs phase 7"),
        (
            "solution:1-5,solution:7",
            {"speculative_config": DRAWN},
            "draft_sample_method must be 'greedy' while phase 6",
        ),
        ("solution:1-7", {"async_scheduling": True}, "async_scheduling needs phase 8"),
        ("solution:1-5", {"max_loras": 1}, GATES),
        ("solution:1-6", {"vllm": "0.33.0"}, "needs phase 14 (year of vLLM), as in LAB_IMPL=solution:1-6,solution:14"),
        ("solution:1-5", {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8}, GATES),
    ],
)
def test_a_config_that_its_lineup_cannot_serve_is_refused(lineup: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build_engine(small_config(**settings), parse_lineup(lineup))


@pytest.mark.parametrize(("impl", "package"), [("starter", "labs"), ("solution", "solutions")])
def test_every_function_of_phases_9_to_14_is_from_the_code_that_the_lineup_names(impl: Impl, package: str) -> None:
    config = EngineConfig(kv_transfer_config=KVTransferConfig(), max_loras=1, vllm="0.33.0")
    found: dict[int, Any] = {
        9: structured_output_functions_for(impl),
        10: kv_transfer_functions_for(impl, config),
        11: admission_functions_for(impl, config),
        12: window_functions_for(impl),
        14: release_functions_for(impl, config),
    }
    for phase, functions in found.items():
        modules = {getattr(functions, one.name).__module__ for one in fields(functions)}
        assert [name.split("_")[0] for name in modules] == [f"{package}.phase{phase}"]


@pytest.mark.parametrize("is_tight", [False, True])
@pytest.mark.parametrize("phases", SUBSETS, ids=lineup_of)
def test_every_subset_generates_the_expected_tokens(phases: tuple[int, ...], is_tight: bool) -> None:
    """Under memory pressure, only an engine with blocks but without preemption may stall."""
    memory = {"num_gpu_blocks": LONGEST_IN_BLOCKS + 2} if is_tight else {}
    runs, num_stalled = run_all(phases, config_of(phases, **memory))
    has_blocks, has_preemption = 2 in phases, 3 in phases
    may_stall = is_tight and has_blocks and not has_preemption
    assert (0 < num_stalled < len(SEEDS)) if may_stall else (num_stalled == 0)
    assert (sum(run.num_preemptions for run in runs) > 0) == (is_tight and has_blocks and has_preemption)
    assert (sum(run.num_cached_tokens for run in runs) > 0) == (4 in phases)
    assert (sum(run.num_chunks for run in runs) > 0) == (5 in phases)


def test_the_workloads_are_the_same_in_every_process() -> None:
    assert [len(arrival.prompt_token_ids) for arrival in make_workload(0)] == [5, 9, 26, 20, 9, 4]
