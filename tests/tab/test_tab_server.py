"""The page's server in a tab, on the fake model: chats, pictures, controls, and a step that raises an error."""

import asyncio
import json
from typing import Any

from mini_vllm import EngineConfig
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.serving.live.tab import TabServer

CONFIG = EngineConfig(max_num_seqs=4, max_num_batched_tokens=64, block_size=8, num_gpu_blocks=40)


class Page:
    """Sends requests to a server, and stores its answers."""

    def __init__(self) -> None:
        self.server = TabServer(build_engine(CONFIG, parse_lineup("solution:1-5")), "fake")
        self.answers: dict[int, list[tuple[str, Any]]] = {}

    def ask(self, path: str, body: object = None, name: str = "") -> int:
        number = len(self.answers)
        got = self.answers[number] = []
        self.server.ask(number, path, json.dumps(body or {}), name, lambda *what: got.append(what))
        return number

    async def ended(self, number: int) -> tuple[int, str]:
        while not self.answers[number] or self.answers[number][-1][0] != "end":
            await asyncio.sleep(0.01)
        (_, status), *data = self.answers[number][:-1]
        return status, "".join(text for _, text in data)

    def chat(self, text: str, name: str, max_tokens: int = 12) -> int:
        messages = [{"role": "user", "content": text}]
        return self.ask("v1/chat/completions", {"messages": messages, "max_tokens": max_tokens}, name)


async def serve() -> None:
    page = Page()
    steps = asyncio.ensure_future(page.server.tab.run())
    stream = page.ask("live/stream?width=720&height=480")
    one, two, left = page.chat("Hello", "one"), page.chat("you", "two"), page.chat("gone", "left", 200)
    status, events = await page.ended(one)
    assert status == 200
    assert events.count('"content"') == 12
    assert '"finish_reason":"length"' in events
    assert events.endswith("data: [DONE]\n\n")
    page.server.leave(left)
    await page.ended(two)
    await asyncio.sleep(0.05)
    assert page.server.tab.num_unfinished_requests == 0
    assert (await page.ended(page.ask("live/bills/chatcmpl-one-0")))[1].startswith('{"request_id": "chatcmpl-one-0"')
    assert (await page.ended(page.chat("long " * 1000, "long")))[0] == 400
    assert "has no live/nothing" in (await page.ended(page.ask("live/nothing")))[1]
    await asyncio.sleep(0.3)
    sent = "".join(text for kind, text in page.answers[stream] if kind == "data")
    assert sent.startswith("event: hello\n")
    assert "event: status\n" in sent
    assert '"svg":"<svg' in sent
    await a_step_that_raises(page)
    steps.cancel()
    page.server.leave(stream)
    await asyncio.sleep(0)


async def a_step_that_raises(page: Page) -> None:
    """A failing step ends its requests with an error; while paused, nothing moves; the next request is answered."""
    await page.ended(page.ask("live/pace", {"steps_per_second": 0}))
    failing = page.chat("Hello", "failing", 40)
    await asyncio.sleep(0.05)
    assert not [text for kind, text in page.answers[failing] if kind == "data"]
    await page.ended(page.ask("live/step"))
    engine = page.server.tab.engine
    schedule = engine.scheduler.schedule

    def raising() -> Any:
        engine.scheduler.schedule = schedule  # type: ignore[method-assign]
        raise ZeroDivisionError("integer division or modulo by zero")

    engine.scheduler.schedule = raising  # type: ignore[method-assign]
    await page.ended(page.ask("live/pace", {"steps_per_second": None}))
    _, events = await page.ended(failing)
    assert "ZeroDivisionError: integer division or modulo by zero" in events
    assert events.count('"content"') == 1  # its earlier output is still shown
    status, events = await page.ended(page.chat("again", "again"))
    assert status == 200
    assert events.count('"content"') == 12


def test_the_server_in_the_tab() -> None:
    asyncio.run(serve())
