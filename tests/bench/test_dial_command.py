"""How soon the chunking dial answers: every setting is requested; how long it took is not tested."""

import json

from bench.dial import BUDGETS, THRESHOLDS, WORKLOADS
from tests.cli.conftest import Commands


def test_every_setting_of_every_workload_is_requested(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "dial", "--requests", "20", "--json").stdout)
    assert list(record) == list(WORKLOADS)
    assert {len(times) for times in record.values()} == {len(BUDGETS) * len(THRESHOLDS)}
    assert min(min(times) for times in record.values()) > 0


def test_the_chart_fits_a_terminal(mini_vllm: Commands) -> None:
    lines = mini_vllm("bench", "dial", "--requests", "20").output.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.strip().startswith("documents")]
