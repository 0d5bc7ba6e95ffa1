"""Measures the parts of `mini-vllm bench gpu`.

`python -m mini_vllm_labs.bench.gpu_parts NAME LINEUP` measures one part and prints JSON.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import transformers

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.assembly.parts import runner_steps_on
from mini_vllm.config import EngineConfig
from mini_vllm.runner.graphs import GraphedModel, bucket_sizes
from mini_vllm.runner.loading import EMBEDDED_MODEL, pick_device
from mini_vllm.runner.steps import FlatBatch, PagedAttention
from mini_vllm_labs.bench.backend import ALL_GREEDY, BLOCK_SIZE, BackendSettings, Load, ServedRound
from mini_vllm_labs.bench.forward_clock import paged_model
from mini_vllm_labs.bench.gpu import workload
from mini_vllm_labs.bench.models import QWEN3_SHAPE, save_random_model
from mini_vllm_labs.bench.peer_process import PeerProcess
from mini_vllm_labs.bench.plan import QUICK, room_needed, skewed_requests
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

MAX_NUM_SEQS, MAX_MODEL_LEN, BUDGET = 256, 4096, 16_384
TEMPERATURE = 0.6
BATCH_SIZES, CONTEXTS = (1, 32, 256), (256, 1024, 4096)
NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, NUM_LAYERS = 16, 8, 128, 28
TOKEN_BYTES = 2 * NUM_KV_HEADS * HEAD_DIM * 2  # a token's K and V in one layer, in bfloat16
WARM_UP_SECONDS = 0.5
MAX_CACHE_BYTES, COPIED_BYTES, FLUSHED_BYTES = 6 * 2**30, 2 * 2**30, 256 * 2**20


def equal(lineup: str) -> dict[str, Any]:
    """Compare the embedded model's greedy output on the GPU with its greedy output on the CPU."""
    requests = skewed_requests(20, 1537, sizes=QUICK)
    settings = BackendSettings(str(EMBEDDED_MODEL), kv_cache_tokens=room_needed(requests), lineup=lineup)
    here = serve("mini-vllm", settings, requests)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    there = serve("mini-vllm", settings, requests)
    same = [mine == theirs for mine, theirs in zip(here.token_ids, there.token_ids, strict=True)]
    return {"equal": [sum(same), len(same)]}


def graphs(lineup: str) -> dict[str, Any]:
    """Compare the logits of decode steps with and without a CUDA graph, for every recorded size."""
    blocks = 4 * MAX_NUM_SEQS + 1
    config = EngineConfig(MAX_NUM_SEQS, max_model_len=MAX_MODEL_LEN, num_gpu_blocks=blocks, dtype="bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        engine: Any = build_engine(config, parse_lineup(lineup), random_qwen3(folder))
    plain, graphed = paged_model(engine), engine.runner.model
    for cache in (*plain.key_caches, *plain.value_caches):
        cache.normal_()
    recorded, differences = sorted(graphed.steps) if isinstance(graphed, GraphedModel) else [0], {}
    for size in recorded:
        flat = decodes([1 + 7 * request % 63 for request in range(size or 1)], plain.device)
        logits, expected = graphed.forward(flat).float(), plain.forward(flat).float()
        differences[size] = float((logits - expected).abs().max() / expected.abs().max())
    return {"recorded": recorded, "wanted": bucket_sizes(MAX_NUM_SEQS), "differences": differences}


def random_qwen3(folder: str) -> str:
    with pick_device():  # drawing 600 million numbers on a CPU takes half a minute
        return str(save_random_model(Path(folder), QWEN3_SHAPE, "qwen3", "bfloat16"))


def decodes(contexts: Sequence[int], device: torch.device) -> FlatBatch:
    """Build a step in which each request computes its last token, with its blocks scattered over the cache."""
    lengths, rows = torch.tensor(contexts), torch.arange(len(contexts) + 1)
    width = -(-max(contexts) // BLOCK_SIZE)
    tables = 1 + torch.randperm(len(contexts) * width, generator=torch.Generator().manual_seed(0)).view(-1, width)
    tables[torch.arange(width) * BLOCK_SIZE >= lengths[:, None]] = 0
    last = lengths - 1
    slots = tables[rows[:-1], last // BLOCK_SIZE] * BLOCK_SIZE + last % BLOCK_SIZE
    parts: Any = [part.to(device) for part in (7 * rows[1:], last, slots, rows, lengths, tables, rows[:-1])]
    parts += [[1] * len(contexts), list(contexts), BLOCK_SIZE]
    return FlatBatch(*parts)


def bandwidth(lineup: str) -> dict[str, Any]:
    """Measure two rates in bytes per second: copying, and decode attention at each batch size and context length."""
    halves = torch.zeros(2, COPIED_BYTES // 4, device="cuda")
    # Copy with a kernel: in a graph, the driver's memory copy reached only two thirds of the attention kernel's rate.
    copied = 2 * COPIED_BYTES / gpu_seconds(lambda: torch.neg(halves[1], out=halves[0]))
    attention, device = runner_steps_on(parse_lineup(lineup).runner, "cuda").paged_attention, halves.device
    sizes = [(batch_size, context) for batch_size in BATCH_SIZES for context in CONTEXTS]
    return {"copied": copied, "decodes": [(*size, speed_of(attention, *size, device, gpu_seconds)) for size in sizes]}


def speed_of(
    attention: PagedAttention,
    batch_size: int,
    context: int,
    device: torch.device,
    seconds_of: Callable[[Callable[[], object]], float],
) -> float:
    """Return the bytes of K and V read per second, over as many separate layers as memory allows."""
    num_bytes, flat = batch_size * context * TOKEN_BYTES, decodes([context] * batch_size, device)
    num_layers = max(1, min(NUM_LAYERS, MAX_CACHE_BYTES // num_bytes))
    shape = (2, int(flat.block_tables.max()) + 1, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
    caches = [torch.ones(shape, dtype=torch.bfloat16, device=device) for _ in range(num_layers)]
    query = torch.ones(batch_size, NUM_HEADS, HEAD_DIM, dtype=torch.bfloat16, device=device)
    return num_layers * num_bytes / seconds_of(lambda: [attention(query, k, v, flat, 0.1) for k, v in caches])


def gpu_seconds(work: Callable[[], object]) -> float:
    """Return the median time of `work` in seconds, launched as a CUDA graph with cold GPU caches."""
    until = perf_counter() + WARM_UP_SECONDS  # an idle GPU runs at a low clock rate
    while perf_counter() < until:
        work()
        torch.cuda.synchronize()
    graph, flushed, seconds = torch.cuda.CUDAGraph(), torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda"), []
    with torch.cuda.graph(graph):
        work()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    for _ in range(9):
        flushed.zero_()
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        seconds.append(float(first.elapsed_time(last)) / 1e3)
    return median(seconds)


def serve(name: str, settings: BackendSettings, *rounds: list[TimedRequest], load: Load = ALL_GREEDY) -> ServedRound:
    """Serve rounds in a new process, with all of a round's requests sent at once; return the last round."""
    peer = PeerProcess(name, settings)
    try:
        return [peer.serve(requests, load=load) for requests in rounds][-1]
    finally:
        peer.close()


def figures_of(name: str, requests: list[TimedRequest], settings: BackendSettings) -> dict[str, Any]:
    """Serve a warm-up, then the requests; return their figures and how many decode steps were graph replays."""
    prompts = [[token_id + 1 for token_id in request.prompt_token_ids] for request in requests[:8]]
    warm_up = [TimedRequest(0.0, "", prompt, 8) for prompt in prompts]
    served = serve(name, settings, warm_up, requests, load=Load(TEMPERATURE))
    alone = [step for step in served.steps if step["num_tokens"] == step["num_requests"] == step["num_samples"]]
    return {
        "output_tokens_per_second": served.tokens_per_second,
        "num_output_tokens": served.num_output_tokens,
        "decodes": len(alone),
        "replayed": sum(bool(step["is_replayed"]) for step in alone),
    }


def on_the_workload(name: str, lineup: str, async_scheduling: bool = False) -> dict[str, Any]:
    """Serve nano-vLLM's workload. The KV cache either has room for all requests at once or fills 4/5 of the free
    memory."""
    requests, limits = workload(), (BUDGET, MAX_NUM_SEQS, lineup, None, MAX_MODEL_LEN)
    room = min(room_needed(requests), int(0.8 * torch.cuda.mem_get_info()[0] / (NUM_LAYERS * TOKEN_BYTES)))
    with tempfile.TemporaryDirectory() as folder:
        settings = BackendSettings(random_qwen3(folder), "bfloat16", 1, room, *limits, async_scheduling)
        return figures_of(name, requests, settings)


MEASURED: dict[str, Callable[[str], dict[str, Any]]] = {
    "equal": equal,
    "graphs": graphs,
    "bandwidth": bandwidth,
    "workload": lambda lineup: on_the_workload("mini-vllm", lineup),
    "in-flight": lambda lineup: on_the_workload("mini-vllm", lineup, async_scheduling=True),
    "peer": lambda lineup: on_the_workload("transformers-continuous", lineup),
}

if __name__ == "__main__":
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "python": sys.version.split()[0]}
    setup = {"device": torch.cuda.get_device_name(), **versions, "lineup": sys.argv[2]}
    print(json.dumps({**setup, "figures": MEASURED[sys.argv[1]](sys.argv[2])}))
