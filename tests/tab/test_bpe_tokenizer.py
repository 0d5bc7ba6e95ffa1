"""The tokenizer in plain Python gives the same results as the library, for any text and any tokens."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm.runner.tab.bpe_tokenizer import BPETokenizer
from mini_vllm.runner.tab.pyodide_model import EMBEDDED

ours, theirs = BPETokenizer(EMBEDDED), ModelTokenizer(AutoTokenizer.from_pretrained(EMBEDDED), frozenset([2, 0]))
PIECES = [
    "<|im_start|>",
    "<|im_end|>",
    "<|im_",
    "|>",
    "'ll",
    "'S",
    "  ",
    "\n",
    "\u3000",
    "\x85",
    "12",
    "½",
    "\u0661",
    "Mina",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=8).map("".join)


@given(TEXTS)
@example("we'll  go\t\n to 12½ places, isn't it? 日本 👍🏽")
def test_a_text_has_the_same_tokens(text: str) -> None:
    text = text.encode(errors="replace").decode()
    assert ours.encode(text) == theirs.encode(text)


@given(st.lists(st.integers(0, 1536), max_size=20))
def test_tokens_have_the_same_text(token_ids: list[int]) -> None:
    assert ours.decode(token_ids) == theirs.decode(token_ids)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXTS), min_size=1, max_size=3))
def test_a_chat_has_the_same_tokens(turns: list[tuple[str, str]]) -> None:
    chat = [{"role": role, "content": text.encode(errors="replace").decode()} for role, text in turns]
    assert ours.apply_chat_template(chat) == theirs.apply_chat_template(chat)


def test_the_ends_and_the_bytes_of_tokens_are_the_same() -> None:
    assert ours.eos_token_ids == theirs.eos_token_ids
    assert ours.token_bytes() == theirs.token_bytes()
    with pytest.raises(FileNotFoundError):
        BPETokenizer(EMBEDDED / "adapter")
