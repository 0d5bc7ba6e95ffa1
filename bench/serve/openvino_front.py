"""OpenVINO GenAI behind `/v1/completions`, streamed. Runs in `.venv-openvino`: `openvino_front.py SETTINGS PORT`.

It imports nothing of ours: that environment has none of it. What it needs besides is fastapi and uvicorn.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
BLOCK_SIZE = 32


def export(model: str, folder: str) -> None:
    """Convert a transformers model, with its tokenizer, to OpenVINO's format; weights in float32."""
    tool = Path(sys.executable).with_name("optimum-cli")
    command = [str(tool), "export", "openvino", "--model", model, "--task", "text-generation-with-past"]
    subprocess.run([*command, "--weight-format", "fp32", folder], check=True, stdout=sys.stderr)


def open_pipeline(settings: dict[str, Any], folder: str) -> Any:
    """Load the model with continuous batching, a prefix cache, and as much KV memory as every server."""
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = settings["max_num_batched_tokens"]
    scheduler.max_num_seqs = settings["max_num_seqs"]
    scheduler.num_kv_blocks = settings["kv_cache_tokens"] // BLOCK_SIZE + 1
    scheduler.dynamic_split_fuse = scheduler.enable_prefix_caching = True
    precision = PRECISIONS[settings["dtype"]]
    properties = {
        "INFERENCE_PRECISION_HINT": precision,
        "KV_CACHE_PRECISION": precision,
        "INFERENCE_NUM_THREADS": settings["num_threads"],
    }
    return openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties)


class Stepper:
    """A thread that takes the pipeline's steps and hands every request's new tokens to its queue."""

    def __init__(self, pipeline: Any, tokenizer: Any) -> None:
        self.pipeline, self.tokenizer = pipeline, tokenizer
        self._ids, self._work = count(), threading.Event()
        self._readers: dict[Any, tuple[asyncio.AbstractEventLoop, asyncio.Queue[list[int] | None]]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, prompt: str, max_tokens: int, ignore_eos: bool) -> "tuple[int, asyncio.Queue[list[int] | None]]":
        """Add a greedy request; return the number of its prompt's tokens, and the queue: None is the end."""
        import numpy
        import openvino
        import openvino_genai

        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = max_tokens, ignore_eos, False
        tokens: asyncio.Queue[list[int] | None] = asyncio.Queue()
        input_ids = numpy.array([self.tokenizer.encode(prompt).ids], dtype=numpy.int64)
        handle = self.pipeline.add_request(next(self._ids), openvino.Tensor(input_ids), config)
        with self._lock:
            self._readers[handle] = (asyncio.get_running_loop(), tokens)
            self._work.set()
        return input_ids.size, tokens

    def _run(self) -> None:
        import openvino_genai

        while True:
            self._work.wait()
            if self.pipeline.has_non_finished_requests():
                self.pipeline.step()
            with self._lock:
                for handle, (loop, tokens) in list(self._readers.items()):
                    if handle.can_read():
                        for output in handle.read().values():
                            loop.call_soon_threadsafe(tokens.put_nowait, list(output.generated_ids))
                    elif handle.get_status() != openvino_genai.GenerationStatus.RUNNING:
                        loop.call_soon_threadsafe(tokens.put_nowait, None)
                        del self._readers[handle]
                if not self._readers:
                    self._work.clear()


def make_app(stepper: Stepper) -> Any:
    """Return the application: `/health` and streamed `/v1/completions`."""
    from fastapi import FastAPI, Request
    from fastapi.responses import StreamingResponse

    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/completions")
    async def completions(request: Request) -> StreamingResponse:
        body = await request.json()
        num_prompt, tokens = stepper.add(body["prompt"], body["max_tokens"], bool(body.get("ignore_eos")))
        return StreamingResponse(events(stepper, num_prompt, tokens), media_type="text/event-stream")

    return app


async def events(stepper: Stepper, num_prompt: int, tokens: "asyncio.Queue[list[int] | None]") -> AsyncIterator[str]:
    """Yield the text of every new token, then the usage."""
    from tokenizers.decoders import DecodeStream

    stream, num_generated = DecodeStream(skip_special_tokens=True), 0
    while (new := await tokens.get()) is not None:
        num_generated += len(new)
        text = "".join(stream.step(stepper.tokenizer, token_id) or "" for token_id in new)
        yield event([{"index": 0, "text": text, "finish_reason": None}])
    usage = {"prompt_tokens": num_prompt, "completion_tokens": num_generated}
    yield event([{"index": 0, "text": "", "finish_reason": "length"}], usage)
    yield "data: [DONE]\n\n"


def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> str:
    """Return one server-sent event."""
    return f"data: {json.dumps({'choices': choices, 'usage': usage})}\n\n"


def main(settings_text: str, port: str) -> None:
    """Export, load and serve until the process is ended."""
    import uvicorn
    from tokenizers import Tokenizer

    settings = json.loads(settings_text)
    tokenizer = Tokenizer.from_file(str(Path(settings["model"]) / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as folder:
        export(settings["model"], folder)
        uvicorn.run(make_app(Stepper(open_pipeline(settings, folder), tokenizer)), port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
