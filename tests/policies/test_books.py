"""The books of a run agree with sums that are made from its requests alone."""

from dataclasses import replace

import pytest

from arena.accounts import Accounts
from arena.contest import serve_requests
from arena.figures import figures_of
from course.simulator.served import Served
from course.workloads.timed_request import TimedRequest
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.core.service_level import ServiceLevel
from tests.policies.races import EXPERIMENT, REFERENCE

# Four seats and few blocks: requests wait for seconds and are preempted, and no block is found again.
TIGHT = replace(
    EXPERIMENT.resolved_engine(), max_num_seqs=4, num_gpu_blocks=60, max_model_len=400, enable_prefix_caching=False
)
REQUESTS = [
    TimedRequest(0.0, str(number), [number] * (40 + 9 * number), 200 + number, tenant="ab"[number % 3 > 0])
    for number in range(16)
]


@pytest.fixture(scope="module")
def run() -> tuple[Served, Accounts]:
    return serve_requests(REQUESTS, SchedulingPolicy(), TIGHT, EXPERIMENT.cost, REFERENCE)


def test_what_is_computed_twice_is_what_no_request_needed(run: tuple[Served, Accounts]) -> None:
    served, accounts = run
    needed = sum(request.num_prompt_tokens + request.num_output_tokens - 1 for request in REQUESTS)
    assert served.num_preemptions > 0
    assert accounts.num_recomputed_tokens == served.num_computed_tokens - needed > 0


def test_service_counts_each_token_once(run: tuple[Served, Accounts]) -> None:
    _, accounts = run
    for tenant in "ab":
        own = [request for request in REQUESTS if request.tenant == tenant]
        assert accounts.service[tenant] == sum(r.num_prompt_tokens + 2 * r.num_output_tokens for r in own)


def test_a_window_has_the_service_of_its_own_time(run: tuple[Served, Accounts]) -> None:
    served, accounts = run
    assert served.seconds > 5
    assert len(accounts.windows) >= 2
    assert sum(map(sum, accounts.windows)) <= sum(accounts.service.values())


@pytest.mark.parametrize(
    ("level", "share"),
    [
        (ServiceLevel("all"), 1.0),
        (ServiceLevel("first", ttft=1e-6), 0.0),
        (ServiceLevel("pace", tpot=1e-6), 0.0),
        (ServiceLevel("end", e2e=1e-6), 0.0),
    ],
)
def test_each_promise_counts(level: ServiceLevel, share: float) -> None:
    requests = [replace(request, service_level=level) for request in REQUESTS[:4]]
    run = serve_requests(requests, SchedulingPolicy(), TIGHT, EXPERIMENT.cost, REFERENCE)
    assert figures_of(*run).share_good == share
