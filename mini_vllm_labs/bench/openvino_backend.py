"""Runs OpenVINO GenAI as a backend in `.venv-openvino`, which lacks most of our dependencies."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mini_vllm_labs.bench.backend import Arrivals, BackendSettings, Load, OnProgress, ServedRound
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
BLOCK_SIZE = 32  # in tokens; OpenVINO GenAI uses a fixed size on CPUs


def open_pipeline(settings: BackendSettings, folder: str) -> Any:
    """Convert a transformers model into `folder`, and load it with the same KV cache size as every other backend."""
    import openvino_genai

    tool = Path(sys.executable).with_name("optimum-cli")
    command = [str(tool), "export", "openvino", "--model", settings.model, "--task", "text-generation-with-past"]
    command += ["--weight-format", settings.quantization or "fp32", folder]
    # the tool's output must not get mixed up with the messages on stdout
    subprocess.run(command, check=True, stdout=sys.stderr)
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = settings.max_num_batched_tokens
    scheduler.max_num_seqs = settings.max_num_seqs
    scheduler.num_kv_blocks = settings.kv_cache_tokens // BLOCK_SIZE + 1
    scheduler.dynamic_split_fuse = scheduler.enable_prefix_caching = True
    precision = PRECISIONS[settings.dtype]
    properties: dict[str, Any] = {"INFERENCE_NUM_THREADS": settings.num_threads}
    if settings.quantization is None:  # otherwise, OpenVINO chooses: bf16 and an int8 KV cache on fast processors
        properties |= {"INFERENCE_PRECISION_HINT": precision, "KV_CACHE_PRECISION": precision}
    return openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties)


def add_request(
    pipeline: Any,
    request_id: int,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    ignore_eos: bool,
    temperature: float = 0.0,
) -> Any:
    """Add a request; return its handle."""
    import numpy
    import openvino
    import openvino_genai

    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = max_tokens, ignore_eos, temperature > 0
    if config.do_sample:
        config.temperature, config.rng_seed = temperature, request_id
    return pipeline.add_request(request_id, openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)), config)


class OpenVino:
    """Continuous batching with paged attention and a prefix cache, driven step by step."""

    def __init__(self, settings: BackendSettings) -> None:
        self._folder = TemporaryDirectory()  # removed when the process exits
        self.pipeline = open_pipeline(settings, self._folder.name)
        self.facts: dict[str, Any] = {"precision": PRECISIONS[settings.dtype], "version": version("openvino-genai")}
        self._ids = count()  # ids continue from one round to the next

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round; each request is added at its arrival time."""
        arrivals, handles = Arrivals(requests, load.batch_size, on_progress), list[Any]()
        while not arrivals.all_finished:
            for request in (requests[index] for index in arrivals.take()):
                asked = next(self._ids), list(request.prompt_token_ids), request.num_output_tokens
                handles.append(add_request(self.pipeline, *asked, ignore_eos=True, temperature=load.temperature))
            if not self.pipeline.has_non_finished_requests():
                arrivals.wait()
                continue
            self.pipeline.step()
            for index, handle in enumerate(handles):
                if len(arrivals.token_ids[index]) < requests[index].num_output_tokens and handle.can_read():
                    new = [token for output in handle.read().values() for token in output.generated_ids]
                    arrivals.note(index, new)
        return arrivals.served()
