"""The lineup's scheduler inside vLLM: what the command reports, and a run of it where vLLM is installed."""

import os
import subprocess
import sys

import pytest

from bench import peer_process
from mini_vllm.assembly.lineup import CHECKOUT
from tools.vllm_inside.unit_tests import compare, explanations

MISSING = peer_process.why_missing(peer_process.VLLM)


def test_a_failure_needs_a_reason_and_a_reason_a_failure() -> None:
    stock = {"f::a": "", "f::b[1]": "", "f::c": "broken", "f::gone": ""}
    ours = {"f::a": "", "f::b[1]": "no", "f::c": "broken"}
    explained, wrong = compare(stock, ours, {"f::b*": "why", "f::x": "stale"})
    assert explained == {"f::b[1]": "why"}
    assert wrong == ["f::gone fails without a reason: it did not run", "f::x: no such test fails any more"]


def test_every_reason_is_a_sentence() -> None:
    assert len(explanations()) == 10
    assert all(len(reason.split()) > 4 for reason in explanations().values())


@pytest.mark.skipif(MISSING is not None and "REQUIRE_VLLM" not in os.environ, reason=str(MISSING))
def test_vllms_tests_and_engine_run_on_our_scheduler() -> None:
    command = [sys.executable, "-m", "tools.vllm_inside"]
    variables = {**os.environ, "LAB_IMPL": "solution"}
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("stock: 60 of 87 pass", "ours: 43 of 87 pass", "tokens equal", "LearnerScheduler: 256 steps"):
        assert line in done.stdout
