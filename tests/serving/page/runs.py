"""Engines that are observed while they serve a crowded random workload, step by step."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.recent_steps import RecentSteps, facts_of, keep_recent_steps
from mini_vllm_labs.serving.observed import observer_of
from tests.engine.workloads import draft_half_right

CROWDED = EngineConfig(
    max_num_seqs=8, max_num_batched_tokens=64, max_model_len=256, num_gpu_blocks=40, block_size=8, check_invariants=True
)


@dataclass
class Watched:
    """An engine with both recorders: the complete one, and the server's."""

    engine: LLMEngine
    recent: RecentSteps
    rng: random.Random

    @classmethod
    def build(cls, config: EngineConfig = CROWDED, lineup: str = "solution:1-5") -> "Watched":
        engine = build_engine(config, parse_lineup(lineup), record=True)
        if config.speculative_config is not None:
            draft_half_right(engine)
        keep_recent_steps(engine)
        return cls(engine, observer_of(engine, RecentSteps), random.Random(0))

    @classmethod
    def ahead(cls) -> "Watched":
        drafts = SpeculativeConfig("ngram", 3, adaptive=False)
        config = replace(CROWDED, max_num_seqs=6, speculative_config=drafts, async_scheduling=True)
        return cls.build(config, "solution:1-5,solution:7,solution:8")

    def add(self) -> None:
        shared = [list(range(start, start + 24)) for start in (0, 50)]
        prompt = self.rng.choice([*shared, []]) + [self.rng.randrange(256) for _ in range(self.rng.randrange(4, 60))]
        params = SamplingParams(max_tokens=self.rng.randrange(4, 40), ignore_eos=True)
        self.engine.add_request(f"chatcmpl-{self.rng.getrandbits(64):x}-0", prompt, params)

    def run(self, num_steps: int) -> None:
        for _ in self.steps(num_steps):
            pass

    def steps(self, num_steps: int) -> Iterator[None]:
        for _ in range(num_steps):
            if self.rng.random() < 0.2 or not self.engine.has_unfinished_requests():
                self.add()
            if self.rng.random() < 0.03:
                self.engine.abort_request(self.rng.choice(list(self.engine.scheduler.requests)))
            if self.engine.has_unfinished_requests():
                self.engine.step()
                yield

    @property
    def recording(self) -> Recording:
        return Recording.of(self.engine)

    def live_run(self) -> LiveRun:
        """What the process that draws the pictures knows about the run so far."""
        run = LiveRun(facts_of(self.engine))
        for chunk in self.recent.chunks.since(0):
            run.feed(chunk)
        return run
