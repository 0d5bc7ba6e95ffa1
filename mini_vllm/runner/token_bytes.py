"""Finds the bytes that each token adds to a text by decoding it between other tokens; works with any decoder."""

from collections.abc import Callable, Sequence
from typing import Any

Decode = Callable[[Sequence[int]], str]
INCOMPLETE = "\ufffd"
VISIBLE = (*range(33, 127), *range(161, 173), *range(174, 256))
HIDDEN = sorted({*range(256)} - {*VISIBLE})
BYTE_OF = {chr(byte): byte for byte in VISIBLE} | {chr(256 + place): byte for place, byte in enumerate(HIDDEN)}


def bytes_of_tokens(tokenizer: Any, decode: Decode) -> list[bytes]:
    """Return the bytes that a transformers tokenizer's tokens add in the middle of a text, keyed by token id.

    The bytes are empty for control tokens, which are not decoded. They are also empty for tokens whose text depends on
    neighbouring tokens, such as the second of two identical CTC tokens: concatenating their bytes would not give the
    text.
    """
    # the ids may have gaps, so the largest can exceed the number of tokens
    num_ids = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=-1))
    names: list[str | None] = tokenizer.convert_ids_to_tokens(list(range(num_ids)))
    for token_id in {*tokenizer.all_special_ids} & {*range(len(names))}:
        # SentencePiece decodes <unk> to a visible symbol
        names[token_id] = None
    words = (i for i, name in enumerate(names) if name and name.isascii() and name.isalpha() and decode([i]))
    anchor = next(words, None)
    if anchor is None:
        return [b""] * len(names)
    # The last token of real text may contain an end marker that becomes a space if further tokens follow.
    last = [anchor, *(token_id for token_id in tokenizer.encode("One day") if decode([token_id]))][-1]
    before, name_bytes = decode([anchor]), _name_bytes(tokenizer)
    after = "".join(decode([anchor, one])[len(before) :] for one in (last, anchor))

    def bytes_of(token_id: int, name: str) -> bytes:
        at_end = decode([anchor, token_id])
        if INCOMPLETE in at_end:  # the token is part of a character, or U+FFFD itself
            return name_bytes(token_id, name)
        text = at_end.removeprefix(before)
        is_same = decode([anchor, token_id, token_id, last, anchor]) == before + text + text + after
        return text.encode() if is_same and at_end.startswith(before) else b""

    return [bytes_of(token_id, name) if name else b"" for token_id, name in enumerate(names)]


def _name_bytes(tokenizer: Any) -> Callable[[int, str], bytes]:
    """Return a function that finds the bytes of a partial character, using the tokenizer or the token's name."""
    if hasattr(tekken := _of_mistral_common(tokenizer), "id_to_byte_piece"):
        return lambda token_id, name: bytes(tekken.id_to_byte_piece(token_id))
    backend = getattr(tokenizer, "backend_tokenizer", None)
    to_bytes = _byte_level if "ByteLevel" in str(getattr(backend, "decoder", None)) else _with_byte_fallback
    return lambda token_id, name: to_bytes(name)


def _of_mistral_common(tokenizer: Any) -> Any:
    for name in ("tokenizer", "instruct_tokenizer", "tokenizer"):
        tokenizer = getattr(tokenizer, name, None)
    return tokenizer


def _byte_level(name: str) -> bytes:
    """Decode a GPT-2 name, which writes unprintable bytes as the characters from code point 256 on, in byte order."""
    return bytes(map(BYTE_OF.__getitem__, name)) if BYTE_OF.keys() >= set(name) else name.encode()


def _with_byte_fallback(name: str) -> bytes:
    """Decode a SentencePiece name, which writes a single byte as `<0xNN>`."""
    if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
        return bytes([int(name[3:5], 16)])
    return name.replace("\u2581", " ").encode() if INCOMPLETE in name else b""
