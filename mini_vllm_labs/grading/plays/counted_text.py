"""Provides a text that counts how much of it is read."""

from collections.abc import Iterable, Iterator
from typing import Any

READS_PER_TOKEN = 100


class TooMuchWorkError(BaseException):
    """The work exceeded its limit.

    This exception is not an `Exception`, so that the code under test cannot catch it and continue.
    """


class LookupWork:
    """Counts the work of a lookup: tokens read and tokens compared, including those of copies of the text.

    Work beyond `at_most` raises a `TooMuchWorkError`.
    """

    def __init__(self, at_most: int) -> None:
        self.count = 0
        self.at_most = at_most

    def add(self, num_tokens: int = 1) -> None:
        self.count += num_tokens
        if self.count > self.at_most:
            raise TooMuchWorkError


class CountedText(list[int]):
    """A text that counts how many of its tokens are read."""

    work: LookupWork

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if isinstance(place, slice):
            self.work.add(len(found))
            return counted_text(found, self.work)
        self.work.add()
        return found

    def __iter__(self) -> Iterator[int]:
        for token_id in super().__iter__():
            self.work.add()
            yield token_id

    def __reversed__(self) -> Iterator[int]:
        for token_id in super().__reversed__():
            self.work.add()
            yield token_id

    def copy(self) -> list[int]:
        return counted_text(self, self.work)


def counted_text(tokens: Iterable[int], work: LookupWork) -> CountedText:
    text = CountedText(tokens)
    text.work = work
    return text


def text_of(tokens: Iterable[int], work: LookupWork) -> CountedText:
    """Return a counted text whose tokens are distinct objects; each comparison and hash of a token counts."""

    class Token(int):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            work.add()
            return int(self) == other

        def __ne__(self, other: object) -> bool:
            return not self == other

        def __hash__(self) -> int:
            work.add()
            return hash(int(self))

    return counted_text(map(Token, tokens), work)
