"""Several clients that ask before the engine takes its next step, and what each of them heard."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from course.notebook.recorded_mark import marked_html, marked_text
from serving.notebook.notices import message_of

if TYPE_CHECKING:
    from openai import OpenAI

Talk = Callable[["OpenAI"], Iterable[str | None]]
SECONDS = 30.0
MAX_EVENTS = 60
STYLE = "text-align:left;vertical-align:top"


@dataclass(frozen=True)
class Refused:
    """An answer that is an error."""

    status: int
    retry_after: str | None
    message: str

    def __str__(self) -> str:
        again = f", Retry-After: {self.retry_after}" if self.retry_after else ""
        return f"{self.status}{again}: {self.message}"


@dataclass(frozen=True)
class Heard:
    """What each client heard, and whose piece came when: `order` is empty in a recorded conversation."""

    answers: Mapping[str, str | Refused]
    order: Sequence[str] = ()
    recorded: str = ""

    @property
    def refused(self) -> list[str]:
        """The clients that were refused."""
        return [name for name, answer in self.answers.items() if isinstance(answer, Refused)]

    @property
    def in_order(self) -> str:
        """Whose piece came when, in a line."""
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


class Client(threading.Thread):
    """Listens to what one function yields, and notes in `order` whose piece came."""

    def __init__(self, name: str, talk: Talk, client: "OpenAI", order: list[str]) -> None:
        super().__init__(name=f"client {name}", daemon=True)
        self.who, self.talk, self.client, self.order = name, talk, client, order
        self.answer: str | Refused = ""
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        from openai import APIStatusError

        try:
            with self.client:
                for piece in self.talk(self.client):
                    if piece:
                        self.answer = f"{self.answer}{piece}"
                        self.order.append(self.who)
        except APIStatusError as error:
            if error.status_code >= 500:
                self.error = error
            self.answer = Refused(error.status_code, error.response.headers.get("retry-after"), message_of(error))
        except Exception as error:
            self.error = error


def listen_at_once(
    talks: Mapping[str, Talk], new_client: Callable[[], "OpenAI"], num_arrived: Callable[[], int]
) -> tuple[list[Client], list[str]]:
    """Start a client for each function, in order: each request has arrived, or been refused, before the next one."""
    clients, order = list[Client](), list[str]()
    for name, talk in talks.items():
        before = num_arrived()
        clients.append(Client(name, talk, new_client(), order))
        end = time.monotonic() + SECONDS
        while clients[-1].is_alive() and num_arrived() == before and time.monotonic() < end:
            time.sleep(0.005)
    return clients, order


def heard_by(clients: Iterable[Client], order: list[str], recorded: str) -> Heard:
    """Wait for the ends of the answers, and return them. Raises what the engine's failure raised in a client."""
    answers = dict[str, str | Refused]()
    for client in clients:
        client.join()
        if client.error is not None:
            raise client.error
        answers[client.who] = client.answer
    return Heard(answers, () if recorded else tuple(order), recorded)
