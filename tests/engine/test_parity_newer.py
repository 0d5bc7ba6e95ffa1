"""Under the rules of 0.33.0 our decisions are that release's, block id for block id."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.release_rules import rules
from mini_vllm_labs.runs.parity.replay import compare, run_free_of_defects
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, Scenario, read_scenarios
from mini_vllm_labs.runs.parity.verdict import KNOWN_DEFECTS

REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12")
MATCHED = {
    "named": 118,
    **{"base": 68, "spec": 49, "async": 66, "async_spec": 58},
    **{"grammar": 30, "lora": 32, "encoder": 40, "remote": 21, "window": 43, "hybrid": 44, "gates": 15},
}
# They would be others if prompts were reserved and `own_reservation` were left; free of both they are the same again.
SAME_WITHOUT_BOTH = {"gates33-remote-028", "gates33-remote-058", "gates33-gates-020", "gates33-gates-029"}


@pytest.mark.parametrize("file", NEWER_FILES, ids=lambda file: file.name)
def test_every_recording_is_matched_or_shows_a_defect(file: Path) -> None:
    matched: Counter[str] = Counter()
    defects: set[str] = set()
    differences: dict[str, str] = {}
    for scenario in read_scenarios(file):
        difference = compare(scenario, REFERENCE)
        if scenario.defects:
            defects |= set(scenario.defects)
            run_free_of_defects(scenario, REFERENCE)
            assert (difference is None) == (scenario.name in SAME_WITHOUT_BOTH), scenario.name
        elif difference is None:
            matched[scenario.kind] += 1
        else:
            differences[scenario.name] = str(difference)
    assert differences == {}
    assert matched.items() <= MATCHED.items()
    assert defects <= KNOWN_DEFECTS["0.33.0"]


WITNESSES = {  # a recording that would be another without the rule
    "in_flight_is_forgotten": "async_reset_drops_what_is_in_flight",
    "images_have_places": "image_position_is_hashed",
    "images_leave_in_update": "encoder_cache_is_released_in_the_update",
    "whole_sequence_must_fit": "reserve_full_isl_waits_for_the_whole_prompt",
    "freed_without_content_first": "freed_order_saves_a_prefix",
    "lookahead_at_admission": "eagle_lookahead_at_admission",
    "loads_leave_room": "gates33-remote-045",
    "single_tokens_are_padded": "full_hit_is_padded",
    "prefill_lookahead": "mtp_chunk_keeps_clear_of_the_end",
    "windows_cache_the_end": "window_retention_loses_a_shared_prefix",
    "blocks_in_flight_stay": "async_victim_in_flight_ends_the_loop",
    "threshold_spares_lone_request": "threshold_ignored_when_alone",
    "block_holders_first": "loaded_requests_come_first",
    "hash_covers_next_token": "eagle_hash_covers_the_next_token",
    "accepted_blocks_enter_in_update": "spec_accepted_blocks_enter_in_the_update",
    "loop_survives_self_preemption": "priority_self_preemption",
    "images_are_passed_over": "encoder_request_is_passed_over",
    "running_adapters_count": "lora_counts_running_requests",
}


@pytest.fixture(scope="module")
def witnesses() -> dict[str, Scenario]:
    scenarios = chain(read_scenarios(NEWER_FILES[0]), read_scenarios(NEWER_FILES[2]))
    return {scenario.name: scenario for scenario in scenarios if scenario.name in WITNESSES.values()}


@pytest.mark.parametrize("rule", [one.name for one in rules()])
def test_each_rule_is_seen_in_a_recording(
    witnesses: dict[str, Scenario], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = witnesses[WITNESSES[rule]]
    assert compare(scenario, REFERENCE) is None
    (field,) = (one for one in rules() if one.name == rule)
    metadata = {**field.metadata, "since": "9.0"}
    monkeypatch.setattr(field, "metadata", metadata)
    assert compare(scenario, REFERENCE) is not None, f"{rule} changes nothing here"
