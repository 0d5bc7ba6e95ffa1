"""Engines without some phases decide what vLLM decided in the recordings that do not use those phases."""

from collections import Counter

import pytest

from course.parity.by_phase import comparable, compare_until_failure, phases_needed
from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from labs.phase2_block_pool import starter
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.request import Request
from solutions.phase2_block_pool import PagedKVCacheManager

SCENARIOS = [s for name in ("named.jsonl", "random.jsonl.gz") for s in read_scenarios(PUBLIC_TRACES / name)]


@pytest.mark.parametrize(
    ("phases", "num_scenarios"),
    [
        ("solution:1-2", 13),
        ("solution:1-3", 37),
        ("solution:1-4", 69),
        ("solution:1-5", 232),
        ("solution:1-2,solution:4", 27),
        ("solution:1-2,solution:5", 28),
        ("solution:1-2,solution:4-5", 64),
        ("solution:1-3,solution:5", 98),
    ],
)
def test_the_phases_that_are_there_decide_as_recorded(phases: str, num_scenarios: int) -> None:
    lineup = parse_lineup(phases)
    chosen = comparable(SCENARIOS, lineup)
    result = compare_until_failure(chosen, lineup)
    assert result.failure is None, result.failure
    assert len(result.agreed) == num_scenarios


def test_each_kind_of_need_is_recorded() -> None:
    counts = Counter(phase for scenario in SCENARIOS for phase in phases_needed(scenario))
    assert min(counts[phase] for phase in range(1, 6)) > 100
    assert (counts[7], counts[8]) == (29 + 7, 30 + 7)


class HeadFirst(PagedKVCacheManager):
    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.req_to_blocks.get(request.request_id, []).reverse()
        super().free(request, num_computed_tokens)


def test_the_first_difference_is_in_the_fewest_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "PagedKVCacheManager", HeadFirst)
    lineup = parse_lineup("solution:1,starter:2,solution:3-5")
    result = compare_until_failure(comparable(SCENARIOS, lineup), lineup)
    assert result.failure is not None
    assert phases_needed(result.failure.scenario) == {1, 2}
    assert result.suspects == [1, 2]
