"""Serves OpenVINO GenAI through a streaming `/v1/completions` endpoint. The server runs in `.venv-openvino`, with
fastapi and uvicorn.

`python -m mini_vllm_labs.bench.serve.openvino_front SETTINGS PORT`
"""

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.openvino_backend import add_request, open_pipeline

Tokens = asyncio.Queue[list[int] | None]  # a request's new tokens; None marks the end


class Stepper:
    """A thread that runs the pipeline's steps and puts each request's new tokens into that request's queue."""

    def __init__(self, pipeline: Any, tokenizer: Any) -> None:
        self.pipeline, self.tokenizer = pipeline, tokenizer
        self._ids, self._work = count(), threading.Event()
        self._readers: dict[Any, tuple[asyncio.AbstractEventLoop, Tokens]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, prompt: str, max_tokens: int, ignore_eos: bool) -> tuple[int, Tokens]:
        """Add a greedy request; return its number of prompt tokens and its output queue."""
        prompt_ids, tokens = self.tokenizer.encode(prompt).ids, Tokens()
        handle = add_request(self.pipeline, next(self._ids), prompt_ids, max_tokens, ignore_eos=ignore_eos)
        with self._lock:
            self._readers[handle] = (asyncio.get_running_loop(), tokens)
            self._work.set()
        return len(prompt_ids), tokens

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
                    self._work.clear()  # done under the lock, so that `add` cannot run in between


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


async def events(stepper: Stepper, num_prompt: int, tokens: Tokens) -> AsyncIterator[str]:
    """Yield the text of every new token, then the usage."""
    from tokenizers.decoders import DecodeStream

    stream, num_generated = DecodeStream(skip_special_tokens=True), 0  # a token may be half a character
    while (new := await tokens.get()) is not None:
        num_generated += len(new)
        text = "".join(stream.step(stepper.tokenizer, token_id) or "" for token_id in new)
        yield event([{"index": 0, "text": text, "finish_reason": None}])
    usage = {"prompt_tokens": num_prompt, "completion_tokens": num_generated}
    yield event([{"index": 0, "text": "", "finish_reason": "length"}], usage)
    yield "data: [DONE]\n\n"


def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> str:
    return f"data: {json.dumps({'choices': choices, 'usage': usage})}\n\n"


def main(settings_text: str, port: str) -> None:
    """Export and load the model, then serve until the process ends."""
    import uvicorn
    from tokenizers import Tokenizer

    settings = BackendSettings(**json.loads(settings_text))
    tokenizer = Tokenizer.from_file(str(Path(settings.model) / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as folder:
        uvicorn.run(make_app(Stepper(open_pipeline(settings, folder), tokenizer)), port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
