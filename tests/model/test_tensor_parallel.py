"""Several ranks generate the same tokens as one process; a dead rank is reported, and no process is left behind."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Barrier

import psutil
import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.parts import runner_steps_on
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.loading import EMBEDDED_MODEL, LoadedModel, describe_model
from mini_vllm.runner.paged_model_runner import PagedModelRunner
from mini_vllm.runner.parallel.messages import Start
from mini_vllm.runner.parallel.model import TensorParallelModel
from mini_vllm.runner.parallel.shares import require_even_split, split_model
from mini_vllm.runner.parallel.workers import WorkerError, Workers
from tests.model.generation import engine_greedy, transformers_greedy
from tests.model.shapes import SERVED, VOCAB_SIZE, random_llama, random_model, random_qwen3, save

ROOT = Path(__file__).parents[2]
BUSY = EngineConfig(
    tensor_parallel_size=2,
    num_gpu_blocks=40,
    block_size=4,
    max_num_batched_tokens=48,
    long_prefill_token_threshold=7,
    max_model_len=140,
    check_invariants=True,
)
SPLITTABLE = ("llama", "qwen2", "qwen3", "mistral", "smollm3", "granite")
PROGRAM = """
from mini_vllm import LLM, EngineConfig
llm = LLM(config=EngineConfig(num_gpu_blocks=10), tensor_parallel_size=2)
print(llm.engine.runner.model.workers.processes[0].pid, flush=True)
input()
"""


class SumOfThreads:
    """An all_reduce for ranks that are threads."""

    def __init__(self, size: int) -> None:
        self.barrier = Barrier(size, timeout=60)
        self.shares: dict[int, torch.Tensor] = {}

    def all_reduce(self, rank: int, share: torch.Tensor) -> torch.Tensor:
        self.shares[rank] = share
        self.barrier.wait()
        total = sum(self.shares[rank] for rank in sorted(self.shares))
        self.barrier.wait()
        assert isinstance(total, torch.Tensor)
        return total


@pytest.mark.parametrize("name", SPLITTABLE)
def test_two_shares_compute_the_logits_of_the_whole_model(name: str) -> None:
    whole = describe_model(random_model(SERVED[name]))
    whole.model.set_attn_implementation("sdpa")
    copies = [deepcopy(whole) for _ in range(2)]
    ids = torch.randint(VOCAB_SIZE, (1, 12))
    truth = whole.model(input_ids=ids).logits
    ranks = SumOfThreads(2)

    @torch.no_grad()
    def share_of(rank: int) -> tuple[LoadedModel, torch.Tensor]:
        share = split_model(copies[rank], rank, 2, lambda part: ranks.all_reduce(rank, part))
        return share, share.model(input_ids=ids).logits

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(share_of, range(2)))
    weights = [share.model.base_model.layers[0].self_attn.q_proj.weight for share, _ in answers]
    assert torch.equal(torch.cat(weights), whole.model.base_model.layers[0].self_attn.q_proj.weight)
    for share, logits in answers:
        assert share.num_kv_heads == 1
        torch.testing.assert_close(logits, truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("llama", 4, r"size 4 .* num_attention_heads 6, num_key_value_heads 2, .* of llama; possible are 1, 2$"),
        ("qwen2", 3, r"size 3 .* num_key_value_heads 2"),
        ("phi3", 2, "phi3 cannot be split by heads alone; it needs colwise_gather_output, rowwise_split_input"),
        ("olmo2", 2, "olmo2 cannot be split by heads alone"),
        ("gpt2", 2, "gpt2 cannot be split by heads alone; it has no plan"),
    ],
)
def test_what_cannot_be_split_is_refused_with_the_numbers(name: str, size: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        require_even_split(SERVED[name], size)


def test_a_model_with_different_outputs_when_split_is_refused() -> None:
    with pytest.raises(ValueError, match="llama computes other logits when it is split"):
        split_model(random_llama(), 0, 2, lambda share: share)


def saved(loaded: LoadedModel, directory: Path) -> str:
    """Write a model with the embedded model's tokenizer beside it, which the test does not use."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED_MODEL / name, directory)
    return str(save(loaded, directory))


def parallel_model(engine: LLMEngine) -> TensorParallelModel:
    assert isinstance(engine.runner, PagedModelRunner)
    assert isinstance(engine.runner.model, TensorParallelModel)
    return engine.runner.model


@pytest.mark.parametrize("make", [random_llama, random_qwen3], ids=["llama", "qwen3"])
def test_two_processes_generate_the_same_tokens_as_transformers(
    make: Callable[[], LoadedModel], tmp_path: Path
) -> None:
    loaded, rng = make(), random.Random(3)
    beginning = [rng.randrange(VOCAB_SIZE) for _ in range(24)]
    prompts = [
        (beginning if index % 2 else []) + [rng.randrange(VOCAB_SIZE) for _ in range(rng.choice([1, 7, 16, 59]))]
        for index in range(20)
    ]
    lengths = [rng.choice([2, 9, 30]) for _ in prompts]
    llm = LLM(saved(loaded, tmp_path), BUSY, parse_lineup("solution"))
    outputs = engine_greedy(llm.engine, prompts, lengths)
    assert [output.outputs[0].token_ids for output in outputs] == transformers_greedy(loaded.model, prompts, lengths)
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    assert llm.engine.scheduler.prefix_cache.hit_rate() > 0
    model = parallel_model(llm.engine)
    assert model.share.key_caches[0].shape[2] == loaded.num_kv_heads // 2
    (worker,) = model.workers.processes
    assert worker.poll() is None
    model.shutdown()
    assert worker.poll() == 0


def test_the_embedded_model_and_a_worker_that_dies() -> None:
    lineup, params = parse_lineup("solution"), SamplingParams(max_tokens=40)
    prompts = ["Tell me a story about Mina and a kite.", "Count from 3 to 9.", "What is the capital of Norway?"]
    truth = LLM(lineup=lineup, config=EngineConfig(num_gpu_blocks=100)).generate(prompts, params)
    llm = LLM(lineup=lineup, config=EngineConfig(num_gpu_blocks=100), tensor_parallel_size=2)
    outputs = llm.generate(prompts, params)
    assert [output.outputs[0].token_ids for output in outputs] == [output.outputs[0].token_ids for output in truth]

    (worker,) = parallel_model(llm.engine).workers.processes
    llm.engine.add_request("last", "Count from 3 to 9.", params)
    llm.engine.step()
    worker.kill()
    for _ in range(2):
        with pytest.raises(WorkerError, match="rank 1: its process ended with exit code -9"):
            llm.engine.step()
    assert worker.poll() == -signal.SIGKILL


def test_an_error_of_rank_0_is_raised_unchanged_and_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = LLM(lineup=parse_lineup("solution"), config=EngineConfig(num_gpu_blocks=40), tensor_parallel_size=2)
    model = parallel_model(llm.engine)

    def stumble(*arguments: object) -> None:
        raise NotImplementedError("Phase 6, task 4: paged_attention")

    model.share.paged_attention = stumble  # type: ignore[assignment]
    llm.engine.add_request("a", "Hello", SamplingParams())
    with pytest.raises(NotImplementedError, match="task 4"):
        llm.engine.step()
    assert model.workers.processes[0].poll() is not None
    with pytest.raises(WorkerError, match="rank 0: NotImplementedError: Phase 6, task 4"):
        llm.engine.step()


def test_a_worker_that_cannot_load_reports_the_reason() -> None:
    workers = Workers(2, num_threads=1)
    workers.send(Start("/nowhere/at/all", EngineConfig(), partial(runner_steps_on, "solution"), 1, 2))
    with pytest.raises(WorkerError, match="rank 1: ValueError: no model at '/nowhere/at/all'"):
        workers.receive()
    assert workers.processes[0].poll() == 1


def test_a_worker_does_not_outlive_its_engine() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        worker = int(engine.stdout.readline())
        assert is_alive(worker)
        engine.kill()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and is_alive(worker):
        time.sleep(0.1)
    assert not is_alive(worker)


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not count."""
    return psutil.pid_exists(pid) and str(psutil.Process(pid).status()) != str(psutil.STATUS_ZOMBIE)


def test_the_fake_model_cannot_be_split() -> None:
    with pytest.raises(ValueError, match=r"tensor_parallel_size must be 1 because phase 6 .* is absent; got 2"):
        LLM(lineup=parse_lineup("solution:1-5"), tensor_parallel_size=2)
