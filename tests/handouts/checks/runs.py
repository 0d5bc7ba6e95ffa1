"""Functions for checking several handouts: small engines, and the figures of the commands `trace` and `stages`."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.testing import CliRunner

from mini_vllm import EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.pictures.terminal.stage_sentences import mean_ms, p95_ms
from mini_vllm_labs.runs.workloads.ablation import ablation_requests, run_lineup


def engine_with(**settings: Any) -> LLMEngine:
    config = EngineConfig(**({"check_invariants": True} | settings))
    return build_engine(config, parse_lineup("solution:1-5"), record=True)


def add(engine: LLMEngine, name: str, prompt: list[int], max_tokens: int = 1) -> None:
    """Add a request that ends after exactly `max_tokens` tokens."""
    engine.add_request(name, prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def finish(engine: LLMEngine) -> list[StepRecord]:
    while engine.has_unfinished_requests():
        engine.step()
    return engine.recorder.steps


def numbers_in_error(action: Callable[[], object], kind: type[Exception]) -> list[int]:
    """Return the numbers in the message of the error that the action raises; empty if it raises none."""
    try:
        action()
    except kind as error:
        return [int(number) for number in re.findall(r"\d+", str(error))]
    return []


@cache
def traced_steps(lineup: str, *options: str) -> list[StepRecord]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        arguments = ["trace", "--lineup", lineup, "--jsonl", str(path), *options]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        _, *lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def stage(last_phase: int) -> tuple[int, int, int]:
    """Return figures of `mini-vllm stages` for phases 1 to `last_phase`: tokens computed, mean TTFT, ITL p95 in ms."""
    found = run_lineup(parse_lineup(f"solution:1-{last_phase}"), ablation_requests())
    ttft, itl = found.first_token_latencies, found.inter_token_latencies
    return found.num_computed_tokens, round(mean_ms(ttft)), round(p95_ms(itl))
