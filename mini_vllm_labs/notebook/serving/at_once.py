"""Lets several clients send requests before the engine's next step, and collects their answers."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING

from mini_vllm_labs.notebook.recorded_mark import marked_html, marked_text
from mini_vllm_labs.notebook.serving.notices import message_of

if TYPE_CHECKING:
    from openai import OpenAI

Talk = Callable[["OpenAI"], Iterable[str | None]]
SECONDS = 30.0
MAX_EVENTS = 60
STYLE = "text-align:left;vertical-align:top"


@dataclass(frozen=True)
class Refused:
    status: int
    retry_after: str | None
    message: str

    def __str__(self) -> str:
        again = f", Retry-After: {self.retry_after}" if self.retry_after else ""
        return f"{self.status}{again}: {self.message}"


@dataclass(frozen=True)
class Heard:
    """The clients' answers, and the order in which their pieces arrived; recorded conversations lack this order."""

    answers: Mapping[str, str | Refused]
    order: Sequence[str] = ()
    recorded: str = ""

    @property
    def refused(self) -> list[str]:
        return [name for name, answer in self.answers.items() if isinstance(answer, Refused)]

    @property
    def first_status(self) -> str:
        """The status of the first refused client, such as `429 Too Many Requests`."""
        status = next(answer.status for answer in self.answers.values() if isinstance(answer, Refused))
        return f"{status} {HTTPStatus(status).phrase}"

    @property
    def in_order(self) -> str:
        more = " ..." if len(self.order) > MAX_EVENTS else ""
        return f"pieces in the order of their arrival: {' '.join(self.order[:MAX_EVENTS])}{more}" if self.order else ""

    def __repr__(self) -> str:
        lines = [f"{name}: {str(answer).strip()}" for name, answer in self.answers.items()]
        return marked_text("\n".join(filter(None, [*lines, self.in_order])), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        rows = "".join(
            f'<tr><th scope="row" style="{STYLE}">{escape(name)}</th>'
            f'<td style="{STYLE}">{escape(str(answer))}</td></tr>'
            for name, answer in self.answers.items()
        )
        order = f'<p style="max-width:720px;margin:2px 0">{escape(self.in_order)}</p>' if self.order else ""
        page = f'<table style="max-width:720px"><tbody>{rows}</tbody></table>{order}'
        return {"text/html": marked_html(page, self.recorded), "text/plain": repr(self)}


def ask_at_once(
    talks: Mapping[str, Talk],
    new_client: Callable[[], "OpenAI"],
    num_arrived: Callable[[], int],
    resume: Callable[[], None],
) -> tuple[dict[str, str | Refused], list[str]]:
    """Call each function with a client while the engine is paused, then resume the engine.

    A client starts only after the previous client's request has arrived or been refused. Returns the answers and the
    order in which their pieces arrived. If the engine fails, raises the resulting client error.
    """
    order = list[str]()
    with ThreadPoolExecutor(max(1, len(talks)), "client") as threads:  # the class rejects 0 threads
        asking = dict[str, Future[str | Refused]]()
        try:
            for name, talk in talks.items():
                before, end = num_arrived(), time.monotonic() + SECONDS
                asking[name] = threads.submit(answer_of, talk, new_client(), name, order)
                while not asking[name].done() and num_arrived() == before and time.monotonic() < end:
                    time.sleep(0.005)
        finally:
            resume()  # also runs after an error, because `threads` waits for the engine's answers
        return {name: answer.result() for name, answer in asking.items()}, order


def answer_of(talk: Talk, client: "OpenAI", name: str, order: list[str]) -> str | Refused:
    """Join the pieces that a function yields, appending `name` to `order` for each piece."""
    from openai import APIStatusError

    pieces = list[str]()
    try:
        with client:
            for piece in filter(None, talk(client)):
                pieces.append(piece)
                order.append(name)
    except APIStatusError as error:
        if error.status_code >= 500:
            raise
        return Refused(error.status_code, error.response.headers.get("retry-after"), message_of(error))
    return "".join(pieces)
