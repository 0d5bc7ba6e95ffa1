"""Runs llama.cpp's own server from a wheel as a backend, in `.venv-xllamacpp`, which lacks torch and transformers."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mini_vllm_labs.bench.backend import Arrivals, BackendSettings, Load, OnProgress, ServedRound
from mini_vllm_labs.bench.llama_cpp_backend import TYPES, write_gguf
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


class LlamaCppServer:
    """Greedy only. The server returns text, so tokens are only counted, and each is stored as 0."""

    def __init__(self, settings: BackendSettings) -> None:
        import xllamacpp

        self._folder = TemporaryDirectory()  # the server maps the file, which is removed when the process exits
        path, matrices = Path(self._folder.name) / "model.gguf", settings.quantization or settings.dtype
        write_gguf(Path(settings.model), path, matrices, has_tokens=True)
        params = xllamacpp.CommonParams()
        params.model.path, params.warmup, params.verbosity = str(path), False, 0
        params.n_parallel, params.n_ctx = settings.max_num_seqs, settings.kv_cache_tokens * settings.max_num_seqs
        params.n_batch = params.n_ubatch = settings.max_num_batched_tokens
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.num_threads
        self.server = xllamacpp.Server(params)
        self.facts: dict[str, Any] = {"precision": TYPES[matrices][0], "version": version("xllamacpp")}

    def serve(self, requests: Sequence[TimedRequest], on_progress: OnProgress, load: Load) -> ServedRound:
        """Serve a round, sending its requests all at once or in batches."""
        arrivals = Arrivals(requests, load.batch_size, on_progress)
        with ThreadPoolExecutor(load.batch_size or len(requests)) as pool:
            for index, count in enumerate(pool.map(self._complete, requests)):
                arrivals.note(index, [0] * count)
        return arrivals.served()

    def _complete(self, request: TimedRequest) -> int:
        """Return the number of generated tokens."""
        settings = {"n_predict": request.num_output_tokens, "temperature": 0.0, "ignore_eos": True}
        reply = self.server.handle_completions({"prompt": list(request.prompt_token_ids), **settings})
        count: int = reply["usage"]["completion_tokens"]
        return count
