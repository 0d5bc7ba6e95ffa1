"""The class of a request decides how many of its drafts are verified."""

import pytest

from arena.loads import LATER, NORMAL, URGENT
from mini_vllm.core.policy.policy_queue import PolicyQueue
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from mini_vllm.core.service_level import ServiceLevel
from policies.drafts_by_class import DraftsByClass


@pytest.mark.parametrize(
    ("level", "kept"), [(URGENT, [1, 2, 3, 4, 5]), (NORMAL, [1, 2]), (LATER, []), (ServiceLevel("other"), [1, 2])]
)
def test_each_class_keeps_its_first_drafts(level: ServiceLevel, kept: list[int]) -> None:
    request = Request("a", [1, 2], service_level=level)
    request.spec_token_ids = [1, 2, 3, 4, 5]
    DraftsByClass().start_step(StepView(0.0, [request], PolicyQueue(SchedulingPolicy()), 9, 4, 8, 64))
    assert request.spec_token_ids == kept


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="the limit of drafts of 'urgent' must be at least 0, got -1"):
        DraftsByClass({"urgent": -1})
