"""The lineup's scheduler inside vLLM: the command's report, and a run if vLLM is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.upkeep.vllm_inside.__main__ import compared
from mini_vllm_labs.upkeep.vllm_inside.unit_tests import FILES, SLOW, compare, explanations, write_hub

MISSING = peer_process.why_missing(peer_process.VLLM)


def test_a_failure_needs_a_reason_and_a_reason_a_failure() -> None:
    stock = {"f::a": "", "f::b[1]": "", "f::c": "broken", "f::gone": ""}
    ours = {"f::a": "", "f::b[1]": "no", "f::c": "broken"}
    explained, wrong = compare(stock, ours, {"f::b*": "why", "f::x": "stale"})
    assert explained == {"f::b[1]": "why"}
    assert wrong == ["f::gone fails without a reason: it did not run", "f::x: no such test fails any more"]


def test_every_reason_is_a_sentence() -> None:
    reasons = explanations([*FILES, *SLOW])
    assert len(reasons) == 11
    assert all(len(reason.split()) > 4 for reason in reasons.values())


@pytest.mark.skipif(MISSING is not None and "REQUIRE_VLLM" not in os.environ, reason=str(MISSING))
def test_vllms_tests_and_engine_run_on_our_scheduler() -> None:
    command = [sys.executable, "-m", "mini_vllm_labs.upkeep.vllm_inside"]
    variables = {**os.environ, "LAB_IMPL": "solution"}
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("stock: 60 of 87 pass", "ours: 43 of 87 pass", "tokens equal", "LearnerScheduler: 256 steps"):
        assert line in done.stdout


def test_without_a_gpu_it_says_so_in_words() -> None:
    command = [sys.executable, "-m", "mini_vllm_labs.upkeep.vllm_inside", "--gpu"]
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("There is no GPU here: the 20 prompts were not run.")


def test_what_differs_is_named_by_prompt_and_token() -> None:
    stock = {"tokens": [[1, 2, 3], [4, 5, 6]], "num_preempted": 3}
    found = compared(stock, {"tokens": [[1, 2, 3], [4, 9, 6]], "num_preempted": 2})
    assert found[0] == "1 of 2 answers have the same tokens"
    assert found[1:] == ["  3 preemptions, stock", "  2 preemptions, ours", "  prompt 1 differs from token 1 on"]


@pytest.mark.skipif(MISSING is not None and "REQUIRE_VLLM" not in os.environ, reason=str(MISSING))
def test_the_20_prompts_run_with_an_executor_in_place_of_the_gpu(tmp_path: Path) -> None:
    write_hub(tmp_path)
    program = (
        "import json\nfrom mini_vllm_labs.upkeep.vllm_inside.fake_executor import FakeExecutor\n"
        "from mini_vllm_labs.upkeep.vllm_inside.generated import generated\n"
        "settings = {'distributed_executor_backend': FakeExecutor}\n"
        "print(json.dumps([generated(one, 'facebook/opt-125m', **settings) for one in ('stock', 'ours')]))"
    )
    variables = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "LAB_IMPL": "solution:1-5"}
    command = [str(peer_process.VLLM_PYTHON), "-c", program]
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[0] == found[1]
    assert (len(found[0]["tokens"]), found[0]["num_preempted"] > 5) == (20, True)
