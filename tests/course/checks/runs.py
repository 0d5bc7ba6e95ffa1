"""What the checks of several handouts call: what the commands `trace` and `stages` come to."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from cli.main import app
from course.terminal.stage_sentences import mean_ms, p95_ms
from course.workloads.ablation import ablation_requests, run_lineup
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.step_record import StepRecord


@cache
def traced_steps(lineup: str, *options: str) -> list[StepRecord]:
    """Return the steps that `mini-vllm trace` shows."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        arguments = ["trace", "--lineup", lineup, "--jsonl", str(path), *options]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        _, *lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def stage(last_phase: int) -> tuple[int, int, int]:
    """Return what `mini-vllm stages` says of phases 1 to `last_phase`: tokens computed, mean TTFT, ITL p95 in ms."""
    found = run_lineup(parse_lineup(f"solution:1-{last_phase}"), ablation_requests())
    ttft, itl = found.first_token_latencies, found.inter_token_latencies
    return found.num_computed_tokens, round(mean_ms(ttft)), round(p95_ms(itl))
