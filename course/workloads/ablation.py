"""The same workload through phases 1, 1-2, ... 1-6: what did each phase buy?

All stages get the same requests at the same moments, the same memory in tokens and the same settings, and
they give the same answers. Only the phases differ, and with them who waits for whom. Time is simulated
(`simulated_time.py`).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field

from course.workloads.simulated_time import EndingRunner, StepCost, TimedRunner, VirtualClock
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine, StalledError
from mini_vllm.engine.trace_recorder import StepRecord
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.seams.build import build_engine
from mini_vllm.seams.lineup import PHASE_NAMES, Impl, Lineup

NUM_REQUESTS = 36
DOCUMENT_EVERY = 3
NUM_SHARED_TOKENS = 192
MAX_TOKENS = 400
END = 3
MAX_STEPS = 5000

# The budget must hold a whole prompt, because before phase 5 no prompt may be cut. The threshold and the
# admission guard are phase 5's, and do nothing before it.
SETTINGS = EngineConfig(
    max_num_seqs=24,
    max_num_batched_tokens=1024,
    long_prefill_token_threshold=128,
    max_model_len=1024,
    block_size=16,
    num_gpu_blocks=131,
    admission_guard=True,
)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: when it comes (seconds), its prompt, and after how many tokens its answer will be over."""

    time: float
    request_id: str
    prompt_token_ids: list[int]
    num_output_tokens: int


def make_visits(seed: int = 0) -> list[Visit]:
    """Return chats that share a long system prompt, and every third one a document that shares nothing.

    Everybody allows an answer of `MAX_TOKENS`, and all answers are over much sooner.
    """
    rng = random.Random(seed)
    vocabulary = range(END + 1, 1000)
    system = rng.choices(vocabulary, k=NUM_SHARED_TOKENS)
    visits, time = [], 0.0
    for number in range(1, NUM_REQUESTS + 1):
        if number % DOCUMENT_EVERY == 0:
            prompt = rng.choices(vocabulary, k=rng.randrange(300, 600))
            visits.append(Visit(time, f"document {number}", prompt, rng.randrange(4, 12)))
        else:
            prompt = system + rng.choices(vocabulary, k=rng.randrange(8, 40))
            visits.append(Visit(time, f"chat {number}", prompt, rng.randrange(60, 120)))
        time += rng.uniform(0.0, 0.04)
    return visits


@dataclass(slots=True)
class Stage:
    """What a lineup made of the workload. Times are seconds of simulated time."""

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
        """The last phase that is there."""
        return max(phase for phase in range(1, len(PHASE_NAMES) + 1) if self.lineup[phase] != "absent")


def stage_lineups(whole: Lineup, last_phase: int = 5) -> list[Lineup]:
    """Return the lineup with phase 1 alone, then with one phase more each time; absent ones add no stage."""
    impls: tuple[Impl, ...] = astuple(whole)
    absent: Impl = "absent"
    return [
        Lineup(*(impl if phase <= last else absent for phase, impl in enumerate(impls, start=1)))
        for last in range(1, last_phase + 1)
        if whole[last] != "absent"
    ]


def run_stage(lineup: Lineup, visits: Sequence[Visit], config: EngineConfig = SETTINGS) -> Stage:
    """Run the workload. A stall ends the run; `num_stalled` then counts who has not been served."""
    clock = VirtualClock()
    engine = build_engine(config, lineup, record=True)
    lengths = {visit.request_id: visit.num_output_tokens for visit in visits}
    engine.runner = TimedRunner(EndingRunner(engine.runner, lengths, END), clock, StepCost())
    engine.clock = clock
    stage = Stage(lineup, len(visits))
    arrived = {visit.request_id: visit.time for visit in visits}
    latest: dict[str, float] = {}
    num_finished = 0
    try:
        for output in _outputs(engine, clock, visits):
            if output.request_id in latest:
                stage.inter_token_latencies.append(clock.now - latest[output.request_id])
            else:
                stage.first_token_latencies.append(clock.now - arrived[output.request_id])
            latest[output.request_id] = clock.now
            stage.token_ids[output.request_id] = output.outputs[0].token_ids
            num_finished += output.finished
    except StalledError:
        stage.num_stalled = len(visits) - num_finished
    stage.seconds = clock.now
    stage.hit_rate = engine.scheduler.prefix_cache.hit_rate()
    _read_trace(stage, engine)
    return stage


def _outputs(engine: LLMEngine, clock: VirtualClock, visits: Sequence[Visit]) -> Iterator[RequestOutput]:
    """Let the visits come when it is time; yield after each step the outputs of those who got a token."""
    coming = list(reversed(visits))
    params = SamplingParams(MAX_TOKENS, stop_token_ids=(END,), ignore_eos=True)
    for _ in range(MAX_STEPS):
        if coming and not engine.has_unfinished_requests():
            clock.advance_to(coming[-1].time)
        while coming and coming[-1].time <= clock.now:
            visit = coming.pop()
            engine.add_request(visit.request_id, visit.prompt_token_ids, params)
        if not engine.has_unfinished_requests():
            return
        yield from engine.step()
    raise StalledError(f"the workload has not ended after {MAX_STEPS} steps")


def _read_trace(stage: Stage, engine: LLMEngine) -> None:
    """Take from the trace what was decided."""
    assert engine.recorder is not None
    kv = engine.scheduler.kv
    reached: dict[str, int] = {}
    num_slots = num_empty = 0
    for record in engine.recorder.steps:
        for share in record["scheduled"]:
            end = share["computed"] + share["n"]
            known = reached.get(share["id"], 0)
            stage.num_recomputed_tokens += max(0, min(known, end) - share["computed"])
            reached[share["id"]] = max(known, end)
            num_slots += len(share["blocks"]) * kv.block_size
            num_empty += len(share["blocks"]) * kv.block_size - end
        held = 1 - record["free_after_schedule"] / kv.num_usable_blocks
        stage.peak_held = max(stage.peak_held, held)
        stage.most_running = max(stage.most_running, len(record["running_after"]) + len(record["finished"]))
        stage.num_preemptions += len(record["preempted"])
        stage.num_computed_tokens += record["total"]
        stage.decisions.append(_decision(record))
    stage.num_steps = len(engine.recorder.steps)
    stage.mean_empty = num_empty / max(1, num_slots)


def _decision(record: StepRecord) -> tuple[object, ...]:
    return record["scheduled"], record["preempted"], record["evicted"], record["free_after_schedule"]
