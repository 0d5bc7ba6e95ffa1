"""Runs prompts through a complete vLLM, once with the stock scheduler and once with `LAB_IMPL`'s, and prints JSON
lines.

`python -m mini_vllm_labs.inside_vllm.real_model JSON` requires a complete vLLM. The JSON contains the `model`, the
`prompts` and the `rounds`; each round has a scheduler, a number of blocks, and further vLLM settings. The round `speed`
compares tokens/s.
"""

import json
import os
import sys
import traceback
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

# In one process, all prompts arrive before the first step, so that both schedulers see the same arrivals.
os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

from vllm import LLM, SamplingParams
from vllm.platforms import current_platform

from mini_vllm_labs.inside_vllm.decisions import Step, record
from mini_vllm_labs.inside_vllm.environment import LEARNERS
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls

MAX_TOKENS = 60
SETTINGS: dict[str, Any] = {
    "dtype": "float32",  # in bfloat16, the same text may end differently when the batch size differs
    "block_size": 32,  # attention on the CPU requires multiples of 32
    "enforce_eager": True,
    "async_scheduling": False,
    "max_model_len": 256,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "disable_log_stats": False,  # this object counts preemptions
}
SPEED = {"max_num_seqs": 64, "max_num_batched_tokens": 512}
SPEED_BLOCKS = 257  # enough room for 64 requests at once
SPEED_ROUNDS, SPEED_TOKENS = 7, 24


@dataclass
class Engine:
    """A warmed-up vLLM with one scheduler and an empty prefix cache."""

    llm: Any

    @classmethod
    def made(cls, model: str, scheduler: str, num_blocks: int, more: dict[str, Any]) -> "Engine":
        own = LEARNERS if scheduler == "yours" else None
        llm = LLM(model=model, scheduler_cls=own, num_gpu_blocks_override=num_blocks, **(SETTINGS | more))
        # Make this call only once: vLLM 0.32.0 registers its kernels for each engine, and this fails after an engine
        # with n-gram drafts.
        current_platform.register_triton_kernel_overrides = lambda: None
        engine = cls(llm)
        engine.generate(["Hello"], 4)
        llm.reset_prefix_cache()
        return engine

    @property
    def core(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core

    def generate(self, prompts: list[str], max_tokens: int = MAX_TOKENS) -> tuple[list[Any], float, float]:
        """Return the greedy answers, the tokens per second, and the tokens per second of CPU time."""
        params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        wall, cpu = perf_counter(), process_time()
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        answers = self.llm.chat(chats, params, use_tqdm=False)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        num_tokens = sum(len(answer.outputs[0].token_ids) for answer in answers)
        return answers, num_tokens / wall, num_tokens / cpu

    def counters(self) -> dict[str, Any]:
        return {metric.name.removeprefix("vllm:"): getattr(metric, "value", None) for metric in self.llm.get_metrics()}

    def close(self) -> None:
        self.llm.llm_engine.engine_core.shutdown()


def texts(model: str, prompts: list[str], scheduler: str, num_blocks: int, more: dict[str, Any]) -> dict[str, Any]:
    """Return the texts that one scheduler generates from the prompts, and its steps."""
    engine = Engine.made(model, scheduler, num_blocks, more)
    steps = record(engine.core.scheduler, SETTINGS["block_size"])
    answers, rate, _ = engine.generate(prompts)
    counters = engine.counters()
    found = {
        "steps": with_short_names(steps),
        "num_preemptions": counters["num_preemptions"],
        "drafts": [counters.get(f"spec_decode_num_{kind}_tokens", 0) for kind in ("draft", "accepted")],
        "tokens_per_second": rate,
        "texts": [answer.outputs[0].text for answer in answers],
        "num_prompt_tokens": [len(answer.prompt_token_ids) for answer in answers],
    }
    engine.close()
    return found


def with_short_names(steps: list[Step]) -> list[Step]:
    """Return the steps with requests renamed to r0, r1, ..., because vLLM adds a random suffix to each id."""
    steps[0]["finished_sent"] = []  # leaves out the request that warmed up the engine
    text = json.dumps(steps)
    for place, name in enumerate(steps[0]["added"]):
        text = text.replace(json.dumps(name), f'"r{place}"')
    found: list[Step] = json.loads(text)
    return found


def speed(model: str, prompts: list[str], more: dict[str, Any]) -> dict[str, Any]:
    """Return both schedulers' tokens per second for 64 requests, and the ratio by CPU time.

    The schedulers take turns, and the fastest round of each counts, because other programs on the machine can only slow
    a round down.
    """
    engines = {name: Engine.made(model, name, SPEED_BLOCKS, more | SPEED) for name in ("stock", "yours")}
    prompts = [f"{prompt} Number {number}." for number, prompt in enumerate(prompts * 64)][:64]
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for _ in range(SPEED_ROUNDS):
        for name, engine in engines.items():
            engine.llm.reset_prefix_cache()
            rounds[name].append(engine.generate(prompts, SPEED_TOKENS)[1:])
    best = {name: [max(rates) for rates in zip(*found, strict=True)] for name, found in rounds.items()}
    return {"ratio": best["yours"][1] / best["stock"][1], **{name: wall for name, (wall, _) in best.items()}}


def main() -> None:
    asked = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # vLLM also prints to stdout
    try:
        for scheduler, num_blocks, more in asked["rounds"]:
            with limited_calls():
                if scheduler == "speed":
                    found = speed(asked["model"], asked["prompts"], more)
                else:
                    found = texts(asked["model"], asked["prompts"], scheduler, num_blocks, more)
            print(json.dumps(found), file=answers)
    except Exception as error:
        traceback.print_exc()
        print(json.dumps({"error": explain(error, {})}), file=answers)


if __name__ == "__main__":
    main()
