"""The servers of a comparison: ours, `transformers serve`, and OpenVINO GenAI with a small front end."""

import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from bench import peer_process
from bench.backend import BLOCK_SIZE, BackendSettings
from bench.serve.endpoint import Endpoint
from bench.serve.server_process import ServerCommand, free_port

OURS, TRANSFORMERS, OPENVINO = "mini-vllm", "transformers-serve", peer_process.OPENVINO
SERVERS = (OURS, TRANSFORMERS, OPENVINO)
HOST = "127.0.0.1"
PAGE_SIZE = 32
IGNORE_EOS = {"ignore_eos": True}
TO_FULL_LENGTH = json.dumps({"do_sample": False, "eos_token_id": -1, "pad_token_id": 0})  # no token has the id -1
"""`transformers serve` takes no `ignore_eos`, but a whole generation config with every request."""


def why_missing(name: str) -> str | None:
    """Return why a server cannot run here; None if it can. Raises `ValueError` for an unknown name."""
    if name == OPENVINO:
        return peer_process.why_missing(OPENVINO)
    if name not in SERVERS:
        raise ValueError(f"a server must be one of {', '.join(SERVERS)}, got {name!r}")
    wanted = ["fastapi", "uvicorn", *(["openai", "accelerate"] if name == TRANSFORMERS else [])]
    missing = [module for module in wanted if find_spec(module) is None]
    return f"it needs `pip install {' '.join(missing)}`" if missing else None


def server_command(name: str, settings: BackendSettings) -> ServerCommand:
    """Return how a server is started on a free port, with the model, threads and KV cache size of `settings`."""
    port = free_port()
    match name:
        case "transformers-serve":
            arguments, model = transformers_arguments(settings, port), settings.model
        case "openvino":
            arguments, model = openvino_arguments(settings, port), OPENVINO
        case _:
            arguments, model = our_arguments(settings, port), OURS
    extra_body = {"generation_config": TO_FULL_LENGTH} if name == TRANSFORMERS else IGNORE_EOS
    endpoint = Endpoint(f"http://{HOST}:{port}", model, extra_body=extra_body)
    return ServerCommand(name, arguments, endpoint, settings.environment())


def our_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of our server."""
    options = {
        "host": HOST,
        "port": port,
        "served-model-name": OURS,
        "lineup": settings.lineup,
        "max-num-seqs": settings.max_num_seqs,
        "max-num-batched-tokens": settings.max_num_batched_tokens,
        "block-size": BLOCK_SIZE,
        "num-gpu-blocks": settings.kv_cache_tokens // BLOCK_SIZE + 1,
        "dtype": settings.dtype,
    }
    # Without a model the lineup has no phase 6, and the fake model's letters do: nothing else is as quick.
    model = settings.model or "--fake-model"
    return [sys.executable, "-m", "cli", "serve", model, *(f"--{name}={value}" for name, value in options.items())]


def transformers_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of `transformers serve` with continuous batching."""
    options = {
        "host": HOST,
        "port": port,
        "device": "cpu",
        "dtype": settings.dtype,
        "cb-block-size": PAGE_SIZE,
        "cb-num-blocks": settings.kv_cache_tokens // PAGE_SIZE + 4,
        "cb-max-batch-tokens": settings.max_num_batched_tokens,
    }
    program = str(Path(sys.executable).with_name("transformers"))
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [program, "serve", settings.model, "--continuous-batching", *flags]


def openvino_arguments(settings: BackendSettings, port: int) -> list[str]:
    """Return the command line of the front of OpenVINO GenAI, in its own environment."""
    front = [str(peer_process.OPENVINO_PYTHON), "-m", "bench.serve.openvino_front"]
    return [*front, json.dumps(asdict(settings)), str(port)]
