"""Small tokenizers of every kind that a model's folder may contain, trained on a few lines."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mini_vllm.runner.model_tokenizer import ModelTokenizer

ASCII = [chr(code) for code in range(33, 127)]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LINES = (
    "One day, a girl said: don't go!  The tea is hot. The end. It is ' fine ' .",
    '{"name": "Mina", "age": 12, "likes": ["tea", "pie"]} yes no red green <b>x</b>',
    "é 你好 ﬁ Å 😀 123-4567 call(a, b)\n\n你 好",
)
TO_METASPACE, TO_BLANK = normalizers.Replace(" ", "▁"), decoders.Replace("▁", " ")


def trained(
    model: Any,
    *,
    normalizer: Any = None,
    pre: Any = None,
    decoder: Any = None,
    alphabet: Iterable[str] = (),
    **more: Any,
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre, decoder
    kind = type(model).__name__.replace("BPE", "Bpe")
    more |= {} if kind == "WordLevel" else {"initial_alphabet": list(alphabet)}
    more |= {"unk_token": "<unk>"} if kind == "Unigram" else {}
    control = ["<unk>", "<s>", "</s>", "<|call|>"]
    trainer = getattr(trainers, f"{kind}Trainer")(special_tokens=control, show_progress=False, vocab_size=400, **more)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def byte_level(normalizer: Any = None, *, has_all: bool = True) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet() if has_all else []
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return trained(models.BPE(), normalizer=normalizer, pre=pre, decoder=decoders.ByteLevel(), alphabet=alphabet)


def with_bytes(tokenizer: Tokenizer, *decoder: Any) -> Tokenizer:
    """Give a model SentencePiece's byte fallback: one token per byte, for characters that have no token."""
    state = json.loads(tokenizer.to_str())
    vocab, state["model"]["byte_fallback"] = state["model"]["vocab"], True
    if isinstance(vocab, dict):
        vocab |= {name: len(vocab) + byte for byte, name in enumerate(BYTES)}
    else:
        vocab += [[name, -20.0] for name in BYTES]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoders.Sequence([TO_BLANK, decoders.ByteFallback(), decoders.Fuse(), *decoder])
    return tokenizer


def with_gap(tokenizer: Tokenizer) -> Tokenizer:
    """Leave 500 ids between the control tokens and the text tokens unused."""
    state = json.loads(tokenizer.to_str())
    state["model"]["vocab"] = {name: i if i < 4 else i + 500 for name, i in state["model"]["vocab"].items()}
    return Tokenizer.from_str(json.dumps(state))


def sentencepiece(normalizer: Any, *decoder: Any) -> Tokenizer:
    model = models.BPE(unk_token="<unk>", fuse_unk=True)
    return with_bytes(trained(model, normalizer=normalizer, limit_alphabet=60), *decoder)


def unigram() -> Tokenizer:
    pre, decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return trained(models.Unigram(), pre=pre, decoder=decoder, alphabet=ASCII)


def added(tokenizer: Tokenizer, *texts: str) -> Tokenizer:
    """Add tokens that occur in texts but are not control tokens."""
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in texts])
    return tokenizer


def word_piece(decoder: Any) -> Tokenizer:
    model, lower = models.WordPiece(unk_token="<unk>"), normalizers.BertNormalizer(lowercase=True)
    alphabet = [*ASCII, "你", "好"]
    return trained(model, normalizer=lower, pre=pre_tokenizers.BertPreTokenizer(), decoder=decoder, alphabet=alphabet)


def word_level(pre: Any, decoder: Any = None) -> Tokenizer:
    return trained(models.WordLevel(unk_token="<unk>"), pre=pre, decoder=decoder)


def with_suffix() -> Tokenizer:
    model = models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    blanks, more = pre_tokenizers.Whitespace(), {"end_of_word_suffix": "</w>"}
    return trained(model, pre=blanks, decoder=decoders.BPEDecoder(), alphabet=ASCII, **more)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": byte_level,
    "byte-level, only bytes it has seen": lambda: byte_level(has_all=False),
    "byte-level, ids with a gap": lambda: with_gap(byte_level()),
    "lower case": lambda: byte_level(normalizers.Lowercase()),
    "Qwen": lambda: added(byte_level(normalizers.NFC()), "<tool_call>", "</tool_call>", "é ü", "é", "\ufffd"),
    "Llama 2": lambda: sentencepiece(
        normalizers.Sequence([normalizers.Prepend("▁"), TO_METASPACE]), decoders.Strip(" ", 1, 0)
    ),
    "Gemma": lambda: added(sentencepiece(TO_METASPACE), "\n", "\n\n", "▁▁", "▁▁▁", "<b>", "</b>"),
    "Unigram": unigram,
    "Unigram with bytes": lambda: with_bytes(unigram(), decoders.Strip(" ", 1, 0)),
    "WordPiece": lambda: word_piece(decoders.WordPiece()),
    "WordPiece, not tidied": lambda: word_piece(decoders.WordPiece(cleanup=False)),
    "words": lambda: word_level(pre_tokenizers.Whitespace()),
    "CTC": lambda: word_level(pre_tokenizers.Split("", "isolated"), decoders.CTC()),
    "suffix": with_suffix,
    "no decoder": lambda: trained(models.BPE(unk_token="<unk>"), alphabet=ASCII),
}


@cache
def tokenizer_of(kind: str) -> ModelTokenizer:
    """Return a tokenizer as the engine uses it; `</s>` ends a text."""
    control = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=KINDS[kind](), **control)  # type: ignore[no-untyped-call]
    return ModelTokenizer(fast, frozenset([fast.eos_token_id]))
