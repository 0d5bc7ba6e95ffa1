"""Calls in both directions over one channel: while one end waits for an answer, it answers the peer's calls."""

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from classroom.worker.encoding import Exported, Json
from classroom.worker.proxies import PROXIES, methods
from classroom.worker.proxy import Proxy
from classroom.worker.text import printable
from classroom.worker.values import Values
from course.sandbox.channel import ChannelError, Message

DEEPEST = 40


class Connection(Protocol):
    """Sends messages to the peer and receives its messages. Both raise `ChannelError`."""

    def send(self, message: Message) -> None: ...

    def receive(self) -> Message: ...


@contextmanager
def well_formed() -> Iterator[None]:
    """Raise `ChannelError` for whatever the peer's values break in the block."""
    try:
        yield
    except Exception as error:
        raise ChannelError("malformed", printable(f"{type(error).__name__}: {error}")) from None


class PartError(Exception):
    """The peer's code raised. `kind` is the exception's name, `text` explains it to the author of the code."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Link:
    """One end. `explain` turns an exception of this end into a text for the peer.

    Raises `ChannelError` if the peer closed the channel, timed out, or sent a malformed message,
    and `PartError` for its exceptions.
    """

    def __init__(
        self,
        channel: Connection,
        first_number: int,
        creates: tuple[str, ...],
        explain: Callable[[BaseException], str],
        *,
        raise_builtin: bool = False,
    ) -> None:
        self.channel = channel
        self.values = Values(first_number, creates, self._export, self._resolve)
        self.file = PROXIES["file"](self.ask, 0)
        self._explain = explain
        self._raise_builtin = raise_builtin
        self._exported: dict[int, Exported] = {}
        self._numbers: dict[int, int] = {}
        self._depth = 0

    def offer(self, thing: object, kind: str, number: int) -> None:
        """Let the peer call an object by a number that both ends know."""
        self._exported[number], self._numbers[id(thing)] = Exported(thing, kind), number

    def ask(self, number: int, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the peer's object and return the answer, serving the peer's own calls meanwhile."""
        encode = self.values.encode
        call = [number, method, encode(list(arguments)), [[name, encode(value)] for name, value in named.items()]]
        self.channel.send({"call": call, "changes": self.values.changes()})
        while True:
            message = self._receive()
            if "call" in message:
                self._answer(message["call"])
            elif "answer" in message:
                return self._decode(message["answer"])
            else:
                self._raise(message.get("error"))

    def serve(self) -> None:
        """Answer calls until the peer closes the channel. Raises `ChannelError` then."""
        while True:
            message = self._receive()
            self._answer(message.get("call"))

    def _receive(self) -> dict[str, Any]:
        message = self.channel.receive()
        with well_formed():
            self.values.apply(message.get("changes"))
        return message

    def _answer(self, call: Json) -> None:
        self._depth += 1
        try:
            value = self._do(call)
            message = {"answer": self.values.encode(value), "changes": self.values.changes()}
            self.channel.send(message)
        except ChannelError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self._raise_builtin:
                raise  # in the judge it is the teacher's, in a worker the learner's
            self.channel.send({"error": [type(error).__name__, self._explain(error)[:4000]], "changes": []})
        finally:
            self._depth -= 1

    def _do(self, call: Json) -> Any:
        if self._depth > DEEPEST:
            raise RecursionError("the calls between the parts never come to an end")
        if not isinstance(call, list) or len(call) != 4:
            raise ChannelError("malformed", "a call has four parts")
        number, method, arguments, named = call
        if not isinstance(number, int) or number not in self._exported or not isinstance(method, str):
            raise ChannelError("malformed", "a call of something that was never offered")
        offered = self._exported[number]
        if method not in methods(offered.kind):
            raise ChannelError("malformed", f"a call of {method!r}, which was never offered")
        options = {str(self._decode(name)): self._decode(value) for name, value in self._pairs(named)}
        attribute = getattr(offered.thing, method)
        value = attribute(*self._decode(arguments), **options) if callable(attribute) else attribute
        return list(value) if method == "__iter__" else value

    def _pairs(self, named: Json) -> list[list[Any]]:
        if not isinstance(named, list) or not all(isinstance(item, list) and len(item) == 2 for item in named):
            raise ChannelError("malformed", "named arguments are pairs")
        return named

    def _decode(self, value: Json) -> Any:
        with well_formed():
            return self.values.decode(value)

    def _raise(self, error: Json) -> None:
        if not isinstance(error, list) or [type(part) for part in error] != [str, str]:
            raise ChannelError("malformed", "a message that is no call, no answer and no error")
        kind, text = self._decode(error[0]), printable(error[1])
        known = getattr(builtins, kind, None)
        if self._raise_builtin and isinstance(known, type) and issubclass(known, Exception):
            raise known(text)
        raise PartError(kind, text)

    def _export(self, exported: Exported) -> Json:
        thing = exported.thing
        if isinstance(thing, Proxy):
            return {"y": thing.number}
        if id(thing) not in self._numbers:
            self.offer(thing, exported.kind, max(self._exported, default=0) + 1)
        return {"o": [self._numbers[id(thing)], exported.kind]}

    def _resolve(self, side: str, content: Json) -> object:
        if side == "y":
            return self._exported[content].thing
        number, kind = content
        return PROXIES[kind](self.ask, int(number))
