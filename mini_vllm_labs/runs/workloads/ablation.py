"""Runs the same workload through phases 1, 1-2, ... 1-6 and then the electives: the ablation.

Every lineup gets the same requests at the same times, the same memory in tokens and the same settings, and generates
the same tokens. The lineups differ only in their phases, and therefore in how long each request waits. Time is
simulated (`simulated_time.py`).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field

from mini_vllm import RequestOutput, SamplingParams
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import ALL_NAMES, PHASE_NAMES, Lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.step_record import ScheduledRecord, StepRecord
from mini_vllm.engine.errors import StalledError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.drafts.drafting_runner import DraftingRunner
from mini_vllm_labs.runs.workloads.electives import with_electives
from mini_vllm_labs.runs.workloads.simulated_electives import simulate_electives
from mini_vllm_labs.runs.workloads.simulated_time import EndingRunner, StepCost, TimedRunner, VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

NUM_REQUESTS = 36
DOCUMENT_EVERY = 3
NUM_SHARED_TOKENS = 192
MAX_TOKENS = 400
END = 3  # below the range that prompts are drawn from, so that no prompt contains it
MAX_STEPS = 5000
NUM_DRAFTS = 4

# The budget must hold a whole prompt, because prompts cannot be split without phase 5. The threshold and the admission
# guard belong to phase 5 and have no effect without it.
SETTINGS = EngineConfig(
    max_num_seqs=24,
    max_num_batched_tokens=1024,
    long_prefill_token_threshold=128,
    max_model_len=1024,
    block_size=16,
    num_gpu_blocks=131,
    admission_guard=True,
)


def ablation_requests(seed: int = 0) -> list[TimedRequest]:
    """Return chats that share a long system prompt; every third request is an unrelated document instead.

    Every request has a `max_tokens` of 400 (`MAX_TOKENS`), but every output ends much earlier.
    """
    rng = random.Random(seed)
    vocabulary = range(END + 1, 1000)
    system = rng.choices(vocabulary, k=NUM_SHARED_TOKENS)
    requests, time = [], 0.0
    for number in range(1, NUM_REQUESTS + 1):
        if number % DOCUMENT_EVERY == 0:
            name, prompt = f"document {number}", rng.choices(vocabulary, k=rng.randrange(300, 600))
            output_len = rng.randrange(4, 12)
        else:
            name, prompt = f"chat {number}", system + rng.choices(vocabulary, k=rng.randrange(8, 40))
            output_len = rng.randrange(60, 120)
        requests.append(TimedRequest(time, name, prompt, MAX_TOKENS, output_len=output_len))
        time += rng.uniform(0.0, 0.04)
    return requests


@dataclass(slots=True)
class LineupResult:
    """One lineup's results on the workload. Times are in simulated seconds."""

    lineup: Lineup
    num_requests: int
    token_ids: dict[str, list[int]] = field(default_factory=dict)
    first_token_latencies: list[float] = field(default_factory=list)
    inter_token_latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    num_steps: int = 0
    most_running: int = 0
    num_preemptions: int = 0
    num_computed_tokens: int = 0
    num_recomputed_tokens: int = 0
    hit_rate: float = 0.0
    peak_held: float = 0.0
    mean_empty: float = 0.0
    num_stalled: int = 0
    decisions: list[tuple[object, ...]] = field(default_factory=list)

    @property
    def last_phase(self) -> int:
        """The last phase that is not absent."""
        return max(phase for phase in range(1, len(ALL_NAMES) + 1) if self.lineup[phase] != "absent")


def ablation_lineups(whole: Lineup, last_phase: int = 5) -> list[Lineup]:
    """Return lineups that each add one phase, starting from phase 1 alone; absent phases are skipped.

    The electives come after `last_phase`.
    """
    impls: tuple[Impl, ...] = astuple(whole)
    absent: Impl = "absent"
    order = [*range(1, last_phase + 1), *range(len(PHASE_NAMES) + 1, len(ALL_NAMES) + 1)]
    chosen = [order[: place + 1] for place, phase in enumerate(order) if whole[phase] != "absent"]
    return [
        Lineup(*(impl if phase in phases else absent for phase, impl in enumerate(impls, start=1))) for phases in chosen
    ]


def run_lineup(lineup: Lineup, requests: Sequence[TimedRequest], config: EngineConfig = SETTINGS) -> LineupResult:
    """Run the workload. A stall ends the run; `num_stalled` then counts the unfinished requests."""
    clock = VirtualClock()
    config = with_electives(config, lineup, SpeculativeConfig(num_speculative_tokens=NUM_DRAFTS))
    engine = build_engine(config, lineup, record=True)
    simulate_electives(engine, has_fake_model=lineup.runner == "absent")
    lengths = {request.request_id: request.num_output_tokens for request in requests}
    if isinstance(engine.runner, DraftingRunner):
        engine.runner.inner = TimedRunner(EndingRunner(engine.runner.inner, lengths, END), clock, StepCost())
    else:
        engine.runner = TimedRunner(EndingRunner(engine.runner, lengths, END), clock, StepCost())
    engine.clock = clock
    result = LineupResult(lineup, len(requests))
    arrived = {request.request_id: request.arrival_time for request in requests}
    latest: dict[str, float] = {}
    num_finished = num_hit_tokens = num_prompt_tokens = 0
    try:
        for output in outputs_in_time(engine, clock, requests):
            if output.request_id in latest:
                result.inter_token_latencies.append(clock.now - latest[output.request_id])
            else:
                # counted at the first admission, as vLLM counts hits
                num_hit_tokens += output.metrics.num_cached_tokens
                num_prompt_tokens += len(output.prompt_token_ids)
                result.first_token_latencies.append(clock.now - arrived[output.request_id])
            latest[output.request_id] = clock.now
            known, token_ids = result.token_ids.get(output.request_id, []), output.outputs[0].token_ids
            # A step's tokens arrive together, so only the first has a latency.
            result.inter_token_latencies += [0.0] * (len(token_ids) - len(known) - 1)
            result.token_ids[output.request_id] = token_ids
            num_finished += output.finished
    except StalledError:
        result.num_stalled = len(requests) - num_finished
    result.seconds = clock.now
    result.hit_rate = num_hit_tokens / max(1, num_prompt_tokens)
    _read_trace(result, engine)
    return result


def outputs_in_time(
    engine: LLMEngine, clock: VirtualClock, requests: Sequence[TimedRequest]
) -> Iterator[RequestOutput]:
    """Add each request at its arrival time; after each step, yield the outputs that got a token."""
    not_arrived = list(reversed(requests))  # `pop` takes the next request from the end
    for _ in range(MAX_STEPS):
        if not_arrived and not engine.has_unfinished_requests():
            clock.advance_to(not_arrived[-1].arrival_time)
        while not_arrived and not_arrived[-1].arrival_time <= clock.now:
            new = not_arrived.pop()
            params = SamplingParams(new.max_tokens, stop_token_ids=(END,), ignore_eos=True)
            engine.add_request(new.request_id, list(new.prompt_token_ids), params)
        if not engine.has_unfinished_requests():
            return
        yield from engine.step()
    raise StalledError(f"the workload did not finish within {MAX_STEPS} steps")


def _read_trace(result: LineupResult, engine: LLMEngine) -> None:
    """Add up the decisions in the engine's trace."""
    kv = engine.scheduler.kv
    reached: dict[str, int] = {}
    num_slots = num_empty = 0
    too_far: dict[str, int] = {}
    is_async = engine.config.async_scheduling
    for record in engine.recorder.steps:
        for share in record["scheduled"]:
            request_id, end = share["id"], share["computed"] + share["n"]
            known = reached.get(request_id, 0)
            result.num_recomputed_tokens += max(0, min(known, end) - share["computed"])
            reached[request_id] = max(known, end - too_far.get(request_id, 0) - num_rejected(record, share))
            num_slots += len(share["blocks"]) * kv.block_size
            num_empty += len(share["blocks"]) * kv.block_size - end
        result.peak_held = max(result.peak_held, 1 - record["free_after_schedule"] / kv.num_usable_blocks)
        result.most_running = max(result.most_running, len(record["running_after"]) + len(record["finished"]))
        result.num_preemptions += len(record["preempted"])
        result.num_computed_tokens += record["total"]
        result.decisions.append(
            (record["scheduled"], record["preempted"], record["evicted"], record["free_after_schedule"])
        )
        # A step planned ahead counts from the end of the previous step's drafts, including rejected ones.
        too_far = {share["id"]: num_rejected(record, share) for share in record["scheduled"] if is_async}
    result.num_steps = len(engine.recorder.steps)
    result.mean_empty = num_empty / max(1, num_slots)


def num_rejected(record: StepRecord, share: ScheduledRecord) -> int:
    """Return the number of rejected drafts; their positions must be computed again."""
    return len(share.get("drafts", ())) - max(0, len(record["sampled"].get(share["id"], ())) - 1)
