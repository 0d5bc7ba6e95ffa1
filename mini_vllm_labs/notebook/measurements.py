"""Measures the embedded model on this computer, in real time, under several settings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm import LLM, EngineConfig, Lineup, SamplingParams


@dataclass(frozen=True)
class Measurement:
    """The times and counts from answering all questions once."""

    seconds: float
    num_output_tokens: int
    num_steps: int
    texts: Sequence[str]

    @property
    def tokens_per_second(self) -> float:
        return self.num_output_tokens / self.seconds

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / self.num_steps


def measure(
    questions: Sequence[str], configs: Sequence[EngineConfig], params: SamplingParams, lineup: Lineup
) -> list[Measurement]:
    """Under each config, answer all questions at once. A first, untimed question warms up the model."""
    measured = []
    for config in configs:
        llm = LLM(config=config, lineup=lineup, record=True)
        chats = [[{"role": "user", "content": question}] for question in questions]
        llm.chat(chats[:1], SamplingParams(max_tokens=2))
        recorder = llm.engine.recorder
        num_before, start = len(recorder.steps), time.perf_counter()
        outputs = llm.chat(chats, params)
        seconds = time.perf_counter() - start
        num_tokens = sum(output.metrics.num_output_tokens for output in outputs)
        texts = [output.outputs[0].text for output in outputs]
        measured.append(Measurement(seconds, num_tokens, len(recorder.steps) - num_before, texts))
    return measured
