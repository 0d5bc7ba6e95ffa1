"""The core needs only Python: an engine on the fake model runs without loading any library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
before = set(sys.modules)
from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm_labs.runs.parity import replay, scenario
config = EngineConfig(max_model_len=40, num_gpu_blocks=12, block_size=4, policy="priority", check_invariants=True)
model = LLM(config=config, lineup=parse_lineup("solution:1-5"), record=True)
texts = [output.outputs[0].text for output in model.generate(["hello", "hello you"], SamplingParams(max_tokens=8))]
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
foreign = sorted(loaded - sys.stdlib_module_names - {"mini_vllm", "mini_vllm_labs", "labs", "solutions"})
print(json.dumps([texts, foreign]))
"""


@pytest.mark.parametrize("options", [[], ["-S"]], ids=["as installed", "without any site-packages"])
def test_an_engine_on_the_fake_model_loads_no_library(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    texts, foreign = json.loads(done.stdout)
    assert [len(text) for text in texts] == [8, 8]
    assert foreign == []
