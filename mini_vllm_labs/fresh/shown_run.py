"""Runs a lineup for display in a new process, on a small workload or on questions to the real model."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mini_vllm import EngineConfig, Lineup, SamplingParams
from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.fresh.jobs import chat, play_workload
from mini_vllm_labs.fresh.process import in_fresh_process
from mini_vllm_labs.pictures.terminal.console import whose_code
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload

OBSERVED = CHECKOUT / "labs" / "observed" / "all_phases.jsonl"
QUESTIONS = [f"Tell me a story about {who}." for who in ("Mina and a kite", "Tom and a boat", "Nora and a drum")]
CHATS = EngineConfig(max_num_batched_tokens=48, long_prefill_token_threshold=16, max_model_len=128, num_gpu_blocks=10)
CHAT_TOKENS = 48
SECONDS = 60.0


@dataclass(frozen=True)
class ShownRun:
    """A recording, the owner of its code, notes on its settings, and any answers to questions."""

    recording: Recording
    whose: str
    remarks: list[str] = field(default_factory=list)
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The step to show first: one with a preemption, otherwise one with a hit, otherwise step 0."""
        steps = enumerate(self.recording.steps)
        ranks = (
            (bool(one["preempted"]), any(share.get("hit") for share in one["scheduled"]), -at) for at, one in steps
        )
        return -max(ranks, default=(False, False, 0))[2]


def shown_run(lineup: Lineup, seed: int = 0, num_requests: int = 8) -> ShownRun:
    """Run a lineup: with phase 6, three stories from the embedded model; otherwise, seeded requests on the fake model.

    Raises `FreshError` with a message for the learner if the run fails, and `ValueError` if it cannot begin.
    """
    if lineup.runner != "absent":
        config, remarks = make_possible(CHATS, lineup)
        params = SamplingParams(max_tokens=CHAT_TOKENS)
        chats = in_fresh_process(chat, QUESTIONS, config, params, lineup, seconds=SECONDS)
        texts = {question: output.outputs[0].text for question, output in chats.outputs.items()}
        return ShownRun(chats.recording, whose_code(lineup), remarks, texts)
    config, remarks = make_possible(SMALL_POOL, lineup)
    requests = make_workload(seed, num_requests)
    run = in_fresh_process(play_workload, requests, config, lineup, seconds=SECONDS)
    return ShownRun(run.recording, whose_code(lineup), [*remarks, *([run.stalled] if run.stalled else [])])


def observed_run() -> ShownRun:
    """Return the finished engine's recorded run, which contains none of the learner's code."""
    recording = Recording.read(OBSERVED)
    recording = replace(recording, info=replace(recording.info, token_budget=24, max_num_seqs=4))
    return ShownRun(recording, "A recorded run of the finished engine: no learner's code is in it.")
