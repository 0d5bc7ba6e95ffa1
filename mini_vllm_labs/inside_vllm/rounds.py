"""Defines what runs in a complete vLLM (the model, prompts and pools) and how a round is recorded."""

import json
from collections.abc import Sequence
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo

MODEL = CHECKOUT / "mini_vllm" / "embedded_model"
NAMES = ("Mina", "Tom", "Ida", "Ben", "Lena", "Max", "Nora", "Paul", "Rosa", "Sam")
PROMPTS = [f"Tell me a story about {name} and a {thing}." for thing in ("kite", "boat") for name in NAMES]
POOLS = (32, 9, 8)  # numbers of 32-token blocks: enough for all eight running requests, then for three or four of them
BLOCK_SIZE, BUDGET, MAX_MODEL_LEN = 32, 64, 256
Result = dict[str, Any]
Round = tuple[str, int, dict[str, Any]]
"""The scheduler, `stock` or `yours`, the number of blocks with the null block, and further settings of vLLM."""


def module_for(prompts: Sequence[str], rounds: Sequence[Round]) -> list[str]:
    """Return the module to run in the environment with vLLM, and its argument."""
    asked = {"model": str(MODEL), "prompts": prompts, "rounds": rounds}
    return ["mini_vllm_labs.inside_vllm.real_model", json.dumps(asked)]


def recording(num_blocks: int, result: Result) -> Recording:
    """Return the steps of a round, with the data needed to draw a picture. Requests are called r0, r1, ..."""
    lengths = {f"r{place}": length for place, length in enumerate(result["num_prompt_tokens"])}
    names = {name: name for name in lengths}
    return Recording(RunInfo(names, lengths, num_blocks, BLOCK_SIZE, BUDGET, max_num_seqs=8), result["steps"])
