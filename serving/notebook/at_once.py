"""Several clients that ask before the engine takes its next step."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from serving.notebook.heard import Heard, Refused
from serving.notebook.talk import message_of

if TYPE_CHECKING:
    from openai import OpenAI

Talk = Callable[["OpenAI"], Iterable[str | None]]
SECONDS = 30.0


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
    """Start a client for each function. Each one's request has arrived, or been refused, before the next one asks."""
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
