"""Serves the live page inside the browser that shows it, with an engine and pictures but no network or threads.

One of the page's workers imports this module. The module answers the page's calls with events or JSON.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mini_vllm.config import EngineConfig
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.drawing.scene import picture_of
from mini_vllm_labs.serving.live.drawing.sent_page import SentPage
from mini_vllm_labs.serving.live.drawing_process import WantedPicture
from mini_vllm_labs.serving.live.pace_and_crowd import Crowd, Pace
from mini_vllm_labs.serving.live.recent_steps import bill_of, facts_of, keep_recent_steps, progress_of, steps_since

Send = Callable[[str, object], None]  # ("status", a number), ("data", a string) or ("end", an empty value)
# drawing may take up a quarter of the time, because the worker also runs the model
PERIOD, SHARE_OF_DRAWING = 1 / 8, 0.25


class TabEngine:
    """An engine that runs its steps on the event loop and lets the worker receive messages between steps."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self.config: EngineConfig = engine.config
        self.tokenizer: Tokenizer = engine.tokenizer
        self._is_paused = False
        self._readers: dict[str, asyncio.Queue[RequestOutput]] = {}
        self._work = asyncio.Event()

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def num_unfinished_requests(self) -> int:
        return len(self._readers)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._work.set()

    async def run(self) -> None:
        """Run steps while there is work, until the task is cancelled."""
        while True:
            if self._is_paused or not self.engine.has_unfinished_requests():
                self._work.clear()
                await self._work.wait()
            else:
                self._step()
                await asyncio.sleep(0)

    async def step_once(self) -> None:
        if self.engine.has_unfinished_requests():
            self._step()

    async def generate(
        self, prompt: list[int], params: SamplingParams, request_id: str
    ) -> AsyncGenerator[RequestOutput, None]:
        """Yield a request's outputs, and abort the request if the reader stops early. Raises `ValueError` like
        `add_request`."""
        self.engine.add_request(request_id, prompt, params)
        outputs = self._readers[request_id] = asyncio.Queue()
        self._work.set()
        try:
            while True:
                output = await outputs.get()
                yield output
                if output.finished:
                    return
        finally:
            del self._readers[request_id]
            self.engine.abort_request(request_id)

    def _step(self) -> None:
        """Run one step. If the step raises an error, its requests end with that error and the others continue."""
        engine = self.engine
        try:
            outputs = engine.step()
        except (Exception, SystemExit) as error:
            words = f"{type(error).__name__}: {error}"
            ended = [engine.abort_request(name, words) for name in engine.requests_in_failed_step()]
            outputs = [output for output in ended if output is not None]
        for output in outputs:
            if output.request_id in self._readers:
                self._readers[output.request_id].put_nowait(output)


class TabServer:
    """Answers the page's calls. `name` is the model's name."""

    def __init__(self, engine: LLMEngine, name: str) -> None:
        keep_recent_steps(engine)
        self.tab, self.name, self.facts = TabEngine(engine), name, facts_of(engine)
        self.pace, self.crowd = Pace(self.tab), Crowd(self.tab)
        self.look, self._changed = WantedPicture(), asyncio.Event()
        self._drawn, self._sent = LiveRun(self.facts), SentPage()
        self._asked: dict[int, asyncio.Task[None]] = {}

    def ask(self, number: int, path: str, body: str, name: str, send: Send) -> None:
        """Start answering one of the page's calls; the page can cancel it with `leave`."""
        task = asyncio.get_event_loop().create_task(self._answer(path, json.loads(body or "{}"), name, send))
        self._asked[number] = task
        task.add_done_callback(lambda _: self._asked.pop(number))

    def leave(self, number: int) -> None:
        if number in self._asked:
            self._asked[number].cancel()

    async def _answer(self, path: str, body: dict[str, Any], name: str, send: Send) -> None:
        try:
            pieces = self._pieces(path, body, name)
            first = await anext(pieces)
            send("status", 200)
            send("data", first)
            async for piece in pieces:
                send("data", piece)
        except (ValueError, KeyError) as error:
            message = str(error) if isinstance(error, ValueError) else f"the page's server in this tab has no {path}"
            send("status", 400)
            send("data", json.dumps({"error": {"message": message}}))
        finally:
            send("end", None)

    async def _pieces(self, path: str, body: dict[str, Any], name: str) -> AsyncIterator[str]:
        route, query = urlsplit(path).path, dict(parse_qsl(urlsplit(path).query))
        if route == "v1/chat/completions":
            async for piece in self._chat(body, name):
                yield piece
        elif route == "live/stream":
            self.look = WantedPicture(width=int(query["width"]), height=int(query["height"]))
            async for piece in self._events():
                yield piece
        else:
            yield json.dumps(await self._told(route, body))

    async def _told(self, route: str, body: dict[str, Any]) -> Any:
        if route.startswith("live/bills/"):
            bill = bill_of(self.tab.engine, route.removeprefix("live/bills/"))
            return bill and asdict(bill)
        match route:
            case "live/look":
                self.look = WantedPicture(**{key: value for key, value in body.items() if key != "viewer"})
                self._changed.set()
                return {}
            case "live/pace":
                self.pace.set(body["steps_per_second"])
            case "live/step":
                await self.pace.step()
            case "live/crowd":
                self.crowd.set(body["requests_per_second"])
            case "health":
                return {}
            case _:
                raise KeyError(route)
        return self._status()

    def _status(self) -> dict[str, Any]:
        return {
            "is_alive": True,
            "reason": "",
            "steps_per_second": self.pace.steps_per_second,
            "requests_per_second": self.crowd.requests_per_second,
            "num_refused": self.crowd.num_refused,
            "refusal": self.crowd.refusal,
            "num_unfinished": self.tab.num_unfinished_requests,
            **progress_of(self.tab.engine),
        }

    async def _chat(self, body: dict[str, Any], name: str) -> AsyncIterator[str]:
        prompt = self.tab.tokenizer.apply_chat_template(body["messages"])
        room = (self.tab.config.max_model_len or 0) - len(prompt)
        params = SamplingParams(max_tokens=min(body.get("max_tokens", room), max(1, room)))
        async with aclosing(self.tab.generate(prompt, params, f"chatcmpl-{name}-0")) as outputs:
            async for output in outputs:
                if output.error is not None:
                    yield event({"error": {"message": output.error, "code": "engine_error"}, "choices": []})
                    return
                end = output.outputs[0]
                choice = {"delta": {"content": output.new_text}, "finish_reason": end.finish_reason}
                usage = {"usage": {"completion_tokens": len(end.token_ids)}} if output.finished else {}
                yield event({"choices": [choice], **usage})
        yield "data: [DONE]\n\n"

    async def _events(self) -> AsyncIterator[str]:
        """Yield the page's events: the engine's constants, then the status and the picture whenever they change."""
        self._sent = SentPage()
        yield event({"viewer": "tab", "model": self.name, **self.facts}, "hello")
        status: dict[str, Any] = {}
        sent: tuple[int, WantedPicture] | None = None
        while True:
            self._changed.clear()
            before, status, look = status, self._status(), replace(self.look)
            if status != before:
                yield event(status, "status")
            wanted, began = (status["newest"] if look.step is None else look.step, look), time.monotonic()
            if status["newest"] >= 0 and wanted != sent:
                yield event(self._picture(look), "picture")
                sent = wanted
            rest = max(PERIOD, (time.monotonic() - began) / SHARE_OF_DRAWING)
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([waiting], timeout=rest)
            waiting.cancel()

    def _picture(self, look: WantedPicture) -> dict[str, Any]:
        run = self._drawn
        for chunk in steps_since(self.tab.engine, run.newest + 1):
            run.feed(chunk)
        picture, step = picture_of(run, look, self.facts), run.newest if look.step is None else look.step
        record = run.state(step).record
        assert record is not None
        return self._sent.message(run, look, picture, record["step"])


def event(body: dict[str, Any], name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body, separators=(',', ':'))}\n\n"
