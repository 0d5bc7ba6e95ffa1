"""Structured output with every kind of vocabulary: no request fails, and each text is exactly an allowed text."""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Grammar
from mini_vllm.core.tokenizer import ByteTokenizer, Tokenizer
from mini_vllm.electives.grammar import StructuredOutputFunctions
from mini_vllm.engine.detokenizer import IncrementalDetokenizer
from mini_vllm.engine.structured_output import StructuredOutputManager
from mini_vllm.engine.vocabulary import Vocabulary
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.sampling_params import StructuredOutputsParams
from solutions import phase9_structured_output as solution
from tests.model.vocabularies import KINDS, tokenizer_of

FUNCTIONS = StructuredOutputFunctions(
    solution.build_dfa, solution.RegexTokenMasks, solution.RegexGrammar, solution.apply_bitmask
)
# Line breaks, double spaces, added tokens, ligatures, and characters that NFC, NFKC or lowercasing would change.
HARD = "<tool_call> <b>A  b</b>\n\n é 你好 ﬁ Å e\u0301 😀 </tool_call>"
AGE, NAME = {"type": "integer", "minimum": 0, "maximum": 120}, {"type": "string", "maxLength": 8}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


WHAT: dict[str, dict[str, Any]] = {
    "object": {"json": an_object(name=NAME, age=AGE)},
    "constant": {"json": an_object(**{HARD: {"const": HARD}})},
    "enum": {"json": {"enum": ["red  x", "Green", 7, None, "\t😀"]}},
    "pattern": {"json": {"type": "string", "pattern": "^[A-Z][a-z]{1,6}-[0-9]{2}$"}},
    "characters": {"choice": ("你好",)},
    "letters": {"choice": ("yes", "no")},
    "blanks": {"choice": (" the end", " tea")},
    "hard choice": {"choice": (HARD, "\n")},
    "number": {"regex": r"\d{3}-\d{4}"},
    "free": {"regex": "[A-Z][a-z]{1,5}  said\n.{0,9}!"},
    "lark": {"grammar": f"start: {json.dumps(HARD)} /[a-z]{{1,4}}/ {json.dumps(HARD)}"},
}
LLGUIDANCE = {"object", "constant", "enum", "pattern", "lark"}
# WordPiece does not have tokens for spaces, capital letters, or punctuation that directly follows a word.
REFUSED = {
    "byte-level, only bytes it has seen": LLGUIDANCE | {"hard choice"},
    "Unigram": {"constant", "lark", "hard choice"},
    **{kind: set(WHAT) - {"letters", "blanks"} for kind in ("WordPiece", "WordPiece, not tidied")},
    **{kind: set(WHAT) for kind in ("words", "CTC", "suffix", "no decoder")},
}


def generate(grammar: Grammar, vocab_size: int, eos_token_ids: frozenset[int], rng: random.Random) -> list[int]:
    """Return random allowed tokens; wherever the text may end, it ends with a probability of 1/2."""
    bitmask, token_ids = np.zeros((1, cdiv(vocab_size, 32)), dtype=np.int32), list[int]()
    while len(token_ids) < 500:
        grammar.fill_bitmask(bitmask, 0)
        allowed = np.flatnonzero(np.unpackbits(bitmask[0].view(np.uint8), bitorder="little")[:vocab_size]).tolist()
        ends = eos_token_ids.intersection(allowed)
        token_id = min(ends) if ends and rng.random() < 0.5 else rng.choice(allowed)
        assert grammar.accept_tokens("r", [token_id])
        if token_id in eos_token_ids:
            return token_ids
        token_ids.append(token_id)
    raise AssertionError("the text never ended")


def text_after(tokenizer: Tokenizer, prompt: str, token_ids: Sequence[int]) -> str:
    detokenizer = IncrementalDetokenizer(tokenizer, tokenizer.encode(prompt))
    detokenizer.add(token_ids)
    detokenizer.finish()
    return detokenizer.text


def require_match(text: str, what: dict[str, Any]) -> None:
    match what:
        case {"choice": choice}:
            assert text in choice
        case {"regex": regex}:
            assert re.fullmatch(regex, text, re.ASCII)
        case {"grammar": _}:
            assert re.fullmatch(f"{re.escape(HARD)}[a-z]{{1,4}}{re.escape(HARD)}", text)
        case {"json": {"properties": {"age": _}}}:
            assert list(json.loads(text)) == ["name", "age"]
        case {"json": {"properties": _}}:
            assert json.loads(text) == {HARD: HARD}
        case {"json": {"enum": values}}:
            assert json.loads(text) in values
        case _:
            assert re.fullmatch("[A-Z][a-z]{1,6}-[0-9]{2}", json.loads(text))


@pytest.mark.parametrize("kind", KINDS)
def test_each_text_is_exactly_what_was_allowed_or_refused_in_words(kind: str) -> None:
    tokenizer, refused = tokenizer_of(kind), set[str]()
    vocab_size = max(tokenizer.tokenizer.get_vocab().values()) + 1
    manager = StructuredOutputManager(FUNCTIONS, tokenizer, vocab_size)
    for name, what in WHAT.items():
        for seed in range(4):
            future = manager.grammar_init(StructuredOutputsParams(**what))
            if (error := future.exception()) is not None:
                assert re.search(r"^structured_outputs.* spells? ", str(error))
                refused.add(name)
                break
            token_ids = generate(future.result(), vocab_size, tokenizer.eos_token_ids, random.Random(seed))
            require_match(text_after(tokenizer, "One day", token_ids), what)
    assert refused == REFUSED.get(kind, set())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in REFUSED])
def test_forced_text_becomes_tokens_of_the_same_bytes(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    vocabulary = Vocabulary(tokenizer, len(tokenizer.token_bytes()), tokenizer.eos_token_ids)
    assert vocabulary.is_complete
    for text in (HARD, '{"name":"', " ", "  ", "\n\n", "e\u0301", "</s>", "<|call|>", "<unk>", "x<s>"):
        assert b"".join(vocabulary.token_bytes[token_id] for token_id in vocabulary(text)) == text.encode()
    plain = "One day"  # if the tokenizer's own tokens can spell the text, they are used
    own = tokenizer.encode(plain)
    if b"".join(vocabulary.token_bytes[token_id] for token_id in own) == plain.encode():
        assert vocabulary(plain) == own


class Words(ByteTokenizer):
    """A tokenizer with a few tokens. The last of them ends a text."""

    def __init__(self, *texts: bytes) -> None:
        self.texts = texts
        self.eos_token_ids = frozenset([len(texts)])

    def encode(self, text: str) -> list[int]:
        return []

    def token_bytes(self) -> list[bytes]:
        return list(self.texts)


def vocabulary_of(*texts: bytes) -> Vocabulary:
    tokenizer = Words(*texts)
    return Vocabulary(tokenizer, len(texts) + 1, tokenizer.eos_token_ids)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("abcd", [0, 2]), ("abc", [1]), ("abab", [0, 0]), ("abx", [0]), ("x", []), ("", []), ("ababcdx", [0, 0, 2])],
)
def test_a_spelling_is_found_where_the_longest_token_leads_nowhere(text: str, spelled: list[int]) -> None:
    assert vocabulary_of(b"ab", b"abc", b"cd")(text) == spelled


def test_a_long_text_that_cannot_be_spelled_takes_no_exponential_time() -> None:
    vocabulary = vocabulary_of(b"a", b"aa", b"aaa")
    assert sum(len(vocabulary.token_bytes[one]) for one in vocabulary("a" * 500 + "b")) == 500


@pytest.mark.parametrize(
    ("regex", "texts"),
    [("ax|b", {"b"}), ("(a|ab)(xy)?b?", {"a", "ab", "axy", "axyb", "abxy", "abxyb", "abb"}), ("a*x", None)],
)
def test_no_token_is_allowed_after_which_the_vocabulary_is_stuck(regex: str, texts: set[str] | None) -> None:
    """The bytes x and y occur only together, so `a` must not be allowed where only x may follow."""
    tokenizer = Words(b"a", b"b", b"xy")
    manager = StructuredOutputManager(FUNCTIONS, tokenizer, 4)
    future = manager.grammar_init(StructuredOutputsParams(regex=regex))
    if texts is None:
        with pytest.raises(ValueError, match="cannot spell any matching text"):
            future.result()
        return
    found = set[str]()
    for seed in range(400):
        grammar = manager.grammar_init(StructuredOutputsParams(regex=regex)).result()
        token_ids = generate(grammar, 4, tokenizer.eos_token_ids, random.Random(seed))
        found.add(b"".join(map(tokenizer.texts.__getitem__, token_ids)).decode())
    assert found == texts


def test_mistral_commons_tokenizer_gives_the_bytes_of_partial_characters() -> None:
    """mistral-common 1.13.1, `Tekkenizer.id_to_byte_piece`: the names of such tokens are `\\ufffd` for all of them.

    transformers 5.23.0, `MistralCommonBackend.added_tokens_decoder`: a method, which raises an error.
    """
    texts = [b"", b"a", b" b", *(bytes([byte]) for byte in "é".encode()), "\ufffd".encode()]

    class Tekken:
        tokenizer: Any = None
        instruct_tokenizer: Any = None

        def __len__(self) -> int:
            return len(texts)

        def get_vocab(self) -> dict[str, int]:
            return {"\ufffd": len(texts) - 1}

        def id_to_byte_piece(self, token_id: int) -> bytes:
            return texts[token_id]

        def convert_ids_to_tokens(self, token_ids: Sequence[int]) -> list[str]:
            return [texts[token_id].decode(errors="replace") or "<s>" for token_id in token_ids]

        def encode(self, text: str) -> list[int]:
            return [1]

        def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
            return b"".join(texts[token_id] for token_id in token_ids).decode(errors="replace")

        def added_tokens_decoder(self) -> None:
            raise NotImplementedError

        all_special_ids, all_special_tokens = (0,), ("<s>",)

    tekken, outer, middle = Tekken(), Tekken(), Tekken()
    outer.tokenizer, middle.instruct_tokenizer, middle.tokenizer = middle, middle, tekken
    tokenizer = ModelTokenizer(outer, frozenset([0]))
    assert tokenizer.token_bytes() == texts
    assert tokenizer.control_tokens == {"<s>": 0}


def test_an_end_token_has_no_bytes_although_it_decodes_to_text() -> None:
    assert Vocabulary(Words(b"a", b"<end>"), 2, frozenset([1])).token_bytes == [b"a", b""]


def test_an_end_token_beyond_the_logits_ends_nothing() -> None:
    tokenizer = Words(b"a")
    for eos_token_ids in ({1, 700}, {700}):
        tokenizer.eos_token_ids = frozenset(eos_token_ids)
        manager = StructuredOutputManager(FUNCTIONS, tokenizer, 2)
        if 1 in eos_token_ids:
            grammar = manager.grammar_init(StructuredOutputsParams(regex="aa")).result()
            assert generate(grammar, 2, manager.eos_token_ids, random.Random(0)) == [0, 0]
        else:
            with pytest.raises(ValueError, match="needs a model with an end-of-text token"):
                manager.grammar_init(StructuredOutputsParams(regex="aa"))
