"""Records exchanges, and replays them from a server while the learner's engine has unwritten tasks.

A record contains neither times nor random names, because they differ from run to run.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from mini_vllm import EngineConfig, Lineup
from mini_vllm_labs.notebook.records import find_record, key_of
from mini_vllm_labs.notebook.serving.notices import NOT_RECORDED

NAME = re.compile(r"\b(?:chat)?cmpl-[0-9a-f]{32}")
CREATED = re.compile(r'"created":\d+')
WORD = re.compile(r"\s*\S+|\s+$")
EVENT = "data: "
KEPT_HEADERS = ("content-type", "retry-after")


@dataclass(frozen=True)
class Exchange:
    """A client's request and its answer."""

    method: str
    path: str
    asked: str
    status: int
    headers: dict[str, str]
    answer: str


def numbered(asked: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str, int]]:
    """Yield the method, path and body of each request, with the number of identical requests before it."""
    seen = Counter[tuple[str, str, str]]()
    for method, path, body in asked:
        one = method, path, plain_body(body)
        yield (*one, seen[one])
        seen[one] += 1


def plain_body(body: str) -> str:
    """Return a JSON body with its fields sorted, and any other body unchanged."""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except ValueError:
        return body


def exchange_key(config: EngineConfig, lineup: Lineup, method: str, path: str, body: str, number: int) -> str:
    return key_of(exchange_key, (config, lineup, method, path, body, number))


def recorded(exchanges: Iterable[Exchange], config: EngineConfig, lineup: Lineup) -> dict[str, str]:
    kept = list(exchanges)
    keys = (exchange_key(config, lineup, *one) for one in numbered((e.method, e.path, e.asked) for e in kept))
    names = dict[str, str]()
    return {key: json.dumps(to_record(one, names), separators=(",", ":")) for key, one in zip(keys, kept, strict=True)}


def to_record(exchange: Exchange, names: dict[str, str]) -> dict[str, Any]:
    """Return the record of an exchange's answer; `names` maps random names to numbers in order of appearance."""
    text = exchange.answer
    if exchange.path == "/metrics":
        text = "".join(line for line in text.splitlines(keepends=True) if "_seconds" not in line)
    if exchange.headers.get("content-type", "").startswith("text/event-stream"):
        text = in_words(text)
    text = NAME.sub(lambda found: names.setdefault(found[0], f"chatcmpl-{len(names) + 1}"), text)
    headers = {name: value for name, value in exchange.headers.items() if name in KEPT_HEADERS}
    return {"status": exchange.status, "headers": headers, "answer": CREATED.sub('"created":0', text)}


def in_words(stream: str) -> str:
    """Return server-sent events with one word of text each, because where a live stream is split depends on its
    reader."""
    events = [line.removeprefix(EVENT) for line in stream.splitlines() if line.startswith(EVENT)]
    pieces = [piece_of(event) for event in events]
    places = [place for place, piece in enumerate(pieces) if piece]
    if not places:
        return stream
    first = json.loads(events[places[0]])
    words = []
    for word in WORD.findall("".join(pieces)):
        first["choices"][0]["delta"]["content"] = word
        words.append(json.dumps(first, separators=(",", ":")))
    others = [event for event, piece in zip(events[places[0] :], pieces[places[0] :], strict=True) if not piece]
    return "".join(f"{EVENT}{event}\n\n" for event in [*events[: places[0]], *words, *others])


def piece_of(event: str) -> str:
    """Return the text in a chat event, or an empty string."""
    if not event.startswith("{"):
        return ""
    choices = json.loads(event).get("choices", [])
    return (choices[0].get("delta", {}).get("content") or "") if choices else ""


class RecordedServer(ThreadingHTTPServer):
    """Listens on a free port on this machine.

    Of several identical requests, the nth gets the nth recorded answer, or the last one if fewer are recorded.
    """

    def __init__(self, config: EngineConfig, lineup: Lineup) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._config, self._lineup = config, lineup
        self._seen = Counter[tuple[str, str, str]]()
        self._lock = threading.Lock()  # each request runs in its own thread
        threading.Thread(target=self.serve_forever, name="replay", daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def find(self, method: str, path: str, body: str) -> tuple[int, dict[str, str], str]:
        """Return the status, headers and text of a recorded answer, or of an error if there is no record."""
        one = method, path, plain_body(body)
        with self._lock:
            number = self._seen[one]
            self._seen[one] += 1
        for earlier in range(number, -1, -1):
            found = find_record(exchange_key(self._config, self._lineup, *one, earlier))
            if found is not None:
                return found["status"], found["headers"], found["answer"]
        error = {"message": "this request is not recorded", "type": "server_error", "param": None, "code": NOT_RECORDED}
        return 503, {"Content-Type": "application/json"}, json.dumps({"error": error})


class Handler(BaseHTTPRequestHandler):
    """Sends the answers that a `RecordedServer` finds."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        status, headers, text = cast(RecordedServer, self.server).find(self.command, self.path, body)
        content = text.encode()
        with suppress(ConnectionError):  # the client disconnects here
            self.send_response(status)
            for name, value in [*headers.items(), ("Content-Length", str(len(content)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing in the cell."""
