"""The embedded model's tokenizer in plain Python, equivalent to `tokenizers` with its tokenizer.json."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from unicodedata import category

from mini_vllm.core.tokenizer import Message, Tool

CONTRACTION = re.compile("'(?:s|t|re|ve|m|ll|d)")
# GPT-2's pattern in terms of character classes: letter (a), number (0), space, other whitespace (_), anything else (.).
WORD = re.compile(r" ?a+| ?0+| ?\.+|[ _]+(?![^ _])|[ _]+")
WHITE_SPACE = {*map(chr, range(9, 14)), "\x85", "\xa0", "\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028", "\u2029"}
WHITE_SPACE |= {"\u202f", "\u205f", "\u3000"}


class BPETokenizer:
    """Byte-level BPE with control tokens, which treats each digit as a word; `folder` contains tokenizer.json.

    Raises `OSError` if tokenizer.json or generation_config.json is missing.
    """

    def __init__(self, folder: Path) -> None:
        given = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        ends = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))["eos_token_id"]
        self.eos_token_ids = frozenset(ends)
        self.vocab: dict[str, int] = given["model"]["vocab"]
        self.control_tokens: dict[str, int] = {one["content"]: one["id"] for one in given["added_tokens"]}
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(given["model"]["merges"])}
        self._control = re.compile("(" + "|".join(map(re.escape, self.control_tokens)) + ")")
        self._names = byte_names()
        byte_of = {name: byte for byte, name in enumerate(self._names)}
        self._bytes = [b""] * (max(self.vocab.values()) + 1)
        for name, token_id in self.vocab.items():
            if name not in self.control_tokens:
                self._bytes[token_id] = bytes(byte_of[char] for char in name)
        self._word = lru_cache(maxsize=4096)(self._merge)

    @property
    def max_characters_per_token(self) -> int:
        return max(map(len, self._bytes))

    def encode(self, text: str) -> list[int]:
        token_ids: list[int] = []
        for part in self._control.split(text):
            if part in self.control_tokens:
                token_ids.append(self.control_tokens[part])
                continue
            for word in words_of(part):
                token_ids += self._word(word)
        return token_ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the tokens' text; incomplete characters become U+FFFD."""
        known = (self._bytes[token_id] for token_id in token_ids if 0 <= token_id < len(self._bytes))
        return b"".join(known).decode(errors="replace")

    def token_bytes(self) -> list[bytes]:
        return list(self._bytes)

    def apply_chat_template(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        turns = [f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages]
        return self.encode("".join(turns) + "<|im_start|>assistant\n")

    def _merge(self, word: str) -> list[int]:
        """Encode a word by repeatedly merging the pair that was learned first."""
        parts = [self._names[byte] for byte in word.encode(errors="replace")]
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in pairwise(parts)]
            least = min(ranks)
            if least == len(self.ranks):
                break
            place = ranks.index(least)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return [self.vocab[part] for part in parts]


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, each with at most one numeric character; BPE never merges across words."""
    for piece in pieces_of(text):
        kinds, at = "".join(map(kind_of, piece)), 0
        while at < len(piece):
            found = CONTRACTION.match(piece, at) or WORD.match(kinds, at)
            assert found is not None  # a word can begin with any class
            yield piece[at : found.end()]
            at = found.end()


def pieces_of(text: str) -> Iterable[str]:
    piece = ""
    for char in text:
        if category(char)[0] == "N":
            yield from filter(None, (piece, char))
            piece = ""
        else:
            piece += char
    yield from filter(None, (piece,))


def kind_of(char: str) -> str:
    if char == " ":
        return char
    kind = {"L": "a", "N": "0"}.get(category(char)[0], ".")
    return "_" if char in WHITE_SPACE else kind


def byte_names() -> list[str]:
    """Return GPT-2's names for the bytes: unprintable bytes become the characters from code point 256 on, in byte
    order."""
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) if byte in visible else chr(256 + hidden.index(byte)) for byte in range(256)]
