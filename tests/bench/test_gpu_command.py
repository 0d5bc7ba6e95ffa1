"""`mini-vllm bench gpu` without a GPU: its messages, its requests, its parts, the figures and the table."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.bench import gpu
from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.gpu_parts import MEASURED, decodes, equal, figures_of, speed_of
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.cli.conftest import Commands

CPU = torch.device("cpu")
DECODES = [[1, 256, 2.5e11], [1, 4096, 9e11], [32, 256, 6e11], [32, 1024, 1.05e12]]
FIGURES: dict[str, dict[str, Any]] = {
    "equal": {"equal": [20, 20]},
    "graphs": {"recorded": [1, 2, 256], "wanted": [1, 2, 256], "differences": {"1": 0.0, "2": 0.013, "256": 0.01}},
    "bandwidth": {"copied": 1.4e12, "decodes": DECODES},
    "workload": {"output_tokens_per_second": 15_000.0, "decodes": 1_020, "replayed": 1_020},
    "in-flight": {"output_tokens_per_second": 18_000.0},
    "peer": {"output_tokens_per_second": 4_000.0},
}
SETUP = {"device": "H100", "torch": "2.11.0", "transformers": "5.17.0", "lineup": "solution"}
ROWS = dict.fromkeys(gpu.PARTS, "H100; torch 2.11.0, transformers 5.17.0, lineup solution") | {
    "texts equal to the CPU's": "20 of 20",
    "batch sizes recorded as graphs": "3 of 3, up to 256",
    "largest difference in a logit": "1.30% of the largest logit",
    "copying": "1,400 GB/s",
    "decode, batch 1, context 256": "250 GB/s, 18%",
    "decode, batch 1, context 4,096": "900 GB/s, 64%",
    "decode, batch 32, context 256": "600 GB/s, 43%",
    "decode, batch 32, context 1,024": "1,050 GB/s, 75%",
    "nano-vLLM's workload": "15,000 tokens/s",
    "decode steps from graphs": "1,020 of 1,020",
    "with a step in flight": "18,000 tokens/s, x1.20",
    "transformers' continuous batching": "4,000 tokens/s, x3.75 on mini-vLLM",
}
WRONG = {  # maps a change to the row that it makes wrong
    "texts equal to the CPU's": {"equal": {"equal": [19, 20]}},
    "batch sizes recorded as graphs": {"graphs": FIGURES["graphs"] | {"recorded": [1, 2]}},
    "largest difference in a logit": {"graphs": FIGURES["graphs"] | {"differences": {"1": 0.0, "2": 0.06}}},
    "decode, batch 32, context 1,024": {"bandwidth": FIGURES["bandwidth"] | {"copied": 2e12}},
    "decode steps from graphs": {"workload": FIGURES["workload"] | {"replayed": 1_019}},
}


def recorded(folder: Path, parts: dict[str, dict[str, Any]]) -> Path:
    for name, figures in parts.items():
        (folder / f"{name}.json").write_text(json.dumps({**SETUP, "figures": figures}), encoding="utf-8")
    return folder


def test_the_requests_are_those_of_nano_vllm() -> None:
    requests = gpu.workload()
    assert sum(request.num_output_tokens for request in requests) == 133_966  # as nano-vLLM's README says
    assert all(100 <= len(request.prompt_token_ids) <= 1024 for request in requests)


@pytest.mark.parametrize("wrong", ["none", *WRONG])
def test_the_table_has_all_figures_and_marks_what_is_wrong(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ran: list[str] = []
    monkeypatch.setattr(gpu, "run_part", lambda name, folder, lineup: ran.append(f"{name} of {lineup}"))
    rows = list(gpu.rows(recorded(tmp_path, FIGURES | WRONG.get(wrong, {}))))
    assert [what for what, _, is_right in rows if not is_right] == ([] if wrong == "none" else [wrong])
    assert wrong != "none" or {what: figure for what, figure, _ in rows} == ROWS
    shown = mini_vllm("bench", "gpu", "peer", "equal", "--out", tmp_path, exit_code=int(wrong != "none")).output
    assert ran == ["equal of solution:1-8", "peer of solution:1-8"]
    assert "2 parts of at most 8 minutes each" in shown
    assert shown.count("not reached") == int(wrong != "none")


def test_a_run_goes_on_with_the_parts_that_have_no_figures(tmp_path: Path) -> None:
    recorded(tmp_path, {name: FIGURES[name] for name in ("equal", "bandwidth")})
    (tmp_path / "graphs.json").write_text('{"error": "out of memory"}')
    assert gpu.chosen_parts([], tmp_path) == ["graphs", "workload", "in-flight", "peer"]
    assert gpu.chosen_parts(["bandwidth", "equal"], tmp_path) == ["equal", "bandwidth"]
    assert list(gpu.PARTS) == list(MEASURED)


CHILD = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"


@pytest.mark.parametrize(
    ("program", "limit", "record"),
    [
        ("print('loading'); print('{\"figures\": \"' + sys.argv[2] + '\"}')", 60, {"figures": "solution"}),
        ("raise ValueError('the GPU is gone')", 60, {"error": "ValueError: the GPU is gone"}),
        ("sys.exit(3)", 60, {"error": "exit code 3"}),
        (CHILD, 1.5, {"error": "not done after 1.5 seconds"}),  # the process's child exits too
    ],
    ids=["figures", "error", "exit", "time"],
)
def test_a_part_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, limit: float, record: dict[str, Any]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "measured_in_a_test.py").write_text(f"import sys\n{program}\n")
    gpu.run_part("equal", tmp_path / "figures", "solution", limit, "measured_in_a_test")
    assert gpu.read(tmp_path / "figures", "equal") == record
    assert "error" not in record or list(gpu.rows(tmp_path / "figures")) == [("equal", record["error"], False)]


def test_a_decode_step_reads_all_keys_once_in_each_layer() -> None:
    asked = []

    def two_seconds(work: Any) -> float:
        asked.append([tuple(one.shape) for one in work()])
        return 2.0

    speed = speed_of(runner_steps_for("solution").paged_attention, 3, 40, CPU, two_seconds)
    assert asked == [[(3, 16, 128)] * 28]
    assert speed == 28 * 3 * 40 * 2 * 8 * 128 * 2 / 2.0
    flat = decodes([1, 40, 16], CPU)
    blocks = [block for row in flat.block_tables.tolist() for block in row if block]
    assert len(blocks) == len(set(blocks)) == 1 + 3 + 1
    own = flat.block_tables.gather(1, (flat.positions // 16)[:, None])[:, 0]
    assert flat.slot_mapping.tolist() == (own * 16 + flat.positions % 16).tolist()


def test_texts_are_compared_and_both_engines_serve_at_a_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # monkeypatch restores the old value at the end
    assert equal("solution") == {"equal": [20, 20]}
    settings = BackendSettings(str(EMBEDDED_MODEL), kv_cache_tokens=1024)
    requests = [TimedRequest(0.0, str(n), [n + 7] * 40, 9) for n in range(3)]
    for name, num_decodes in (("mini-vllm", 8), ("transformers-continuous", 0)):
        figures = figures_of(name, requests, settings)
        assert (figures["num_output_tokens"], figures["decodes"], figures["replayed"]) == (27, num_decodes, 0)
