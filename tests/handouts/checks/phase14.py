"""Functions for the `<!-- check: ... -->` comments in the phase 14 handout: small runs under two releases."""

from functools import cache

from mini_vllm import EngineConfig
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.notebook.run_facts import RunFacts
from mini_vllm_labs.runs.parity.by_task import matches_by_task, plain_recordings
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from solutions.phase14_year_of_vllm import order_freed, reachable_blocks, threshold_of_step

LINEUP = parse_lineup("solution:1-5,solution:14")
OLD, NEW = "0.13.0", "0.33.0"
CONFIG = {"block_size": 4, "max_num_batched_tokens": 64, "max_model_len": 48, "num_gpu_blocks": 41}
TINY = [TimedRequest(2 * number, f"T{number}", [100 + number] * 2, max_tokens=2) for number in range(1, 9)]
SCENES: dict[str, tuple[list[TimedRequest], dict[str, object]]] = {
    "lone": ([TimedRequest(0, "A", [65] * 40, 2)], {"long_prefill_token_threshold": 8}),
    "freed": (
        [TimedRequest(0, "A", range(16), 2), *TINY, TimedRequest(18, "B", range(17), 2)],
        {"num_gpu_blocks": 9},
    ),
    "thrash": (
        [TimedRequest(0, name, [ord(name)] * 24, 6) for name in "ABC"],
        {"num_gpu_blocks": 13, "max_num_batched_tokens": 8, "enable_prefix_caching": False},
    ),
    "idle": (
        [TimedRequest(0, "B", [66] * 8, 8, priority=5), TimedRequest(1, "C", [67] * 4, 8)],
        {"num_gpu_blocks": 6, "policy": "priority"},
    ),
}


@cache
def facts(scene: str, vllm: str) -> RunFacts:
    """Return facts about running a scene under a release's rules."""
    requests, settings = SCENES[scene]
    return RunFacts(play_workload(requests, EngineConfig(**CONFIG | settings, vllm=vllm), LINEUP))  # type: ignore[arg-type]


def steps(scene: str) -> list[int]:
    return [facts(scene, vllm).num_steps for vllm in (OLD, NEW)]


def preemptions(scene: str) -> list[int]:
    return [facts(scene, vllm).num_preemptions for vllm in (OLD, NEW)]


def again(scene: str) -> list[int]:
    return [facts(scene, vllm).num_recomputed for vllm in (OLD, NEW)]


def hits(scene: str, request: str) -> list[int]:
    return [facts(scene, vllm).hit_of(request) for vllm in (OLD, NEW)]


def tokens(scene: str, step: int) -> list[int]:
    return [facts(scene, vllm).tokens(step) for vllm in (OLD, NEW)]


@cache
def matched() -> list[int]:
    return matches_by_task(LINEUP)


def num_plain() -> int:
    return len(plain_recordings())


def threshold(setting: int, num_requests: int, most: int) -> int:
    """Return the adaptive threshold of a step."""
    return threshold_of_step(setting, num_requests, most, True)


def freed(block_ids: list[int], with_content: list[int]) -> tuple[list[int], list[int]]:
    return order_freed(block_ids, with_content)


def kept(num_blocks: int, prompt: int, window: int, junction: int = 0, interval: int = 0) -> list[int]:
    """Return which of the first four-token blocks enter the cache."""
    return reachable_blocks(
        0, num_blocks, num_prompt_tokens=prompt, junction=junction, window=window, block_size=4, interval=interval
    )
