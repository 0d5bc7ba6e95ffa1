"""Turns the training text into rows of token ids: trains the tokenizer, weights tokens for the loss, and draws
windows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mini_vllm_labs.upkeep.tiny_model.corpus import Document

END_OF_TEXT, TURN_START, TURN_END, PADDING = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY, CONTEXT, TOKENS_PER_STEP = 2048, 2048, 4096


def pieces(made: Document) -> list[tuple[str, bool]]:
    """Split a document into (text, whether it contributes to the loss).

    Questions do not contribute to the loss, because they are random text, which teaches nothing.
    """
    if made.text:
        return [(made.text + END_OF_TEXT, True)]
    parts: list[tuple[str, bool]] = []
    for message in made.messages:
        parts.append((f"{TURN_START}{message['role']}\n", False))
        parts.append((message["content"] + TURN_END, message["role"] == "assistant"))
        parts.append(("\n", False))
    return [*parts, (END_OF_TEXT, True)]


def make_tokenizer(documents: Iterable[Document]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer that splits numbers into digits."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END, PADDING],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(("".join(text for text, _ in pieces(made)) for made in documents), trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=TURN_END,
        pad_token=PADDING,
        additional_special_tokens=[TURN_START],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@dataclass(frozen=True)
class Encoded:
    """Documents as a single row of token ids, whether each id contributes to the loss, and where each document
    starts."""

    ids: torch.Tensor
    weights: torch.Tensor
    starts: torch.Tensor


def encode(documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast) -> Encoded:
    """Encode the documents one after the other."""
    ids: list[int] = []
    weights: list[bool] = []
    starts: list[int] = []
    backend = tokenizer.backend_tokenizer
    for made in documents:
        starts.append(len(ids))
        for text, carries_loss in pieces(made):
            encoded = backend.encode(text).ids
            ids += encoded
            weights += [carries_loss] * len(encoded)
    return Encoded(torch.tensor(ids, dtype=torch.int32), torch.tensor(weights), torch.tensor(starts))


def length_at(progress: float) -> int:
    """Return the sequence length at a point in training; it starts short because the cost of attention is quadratic."""
    return 256 if progress < 0.45 else 512 if progress < 0.8 else 1024


def batches(
    data: Encoded, steps: int, fixed_length: int, *, whole_documents: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (ids, weights) of random windows, `TOKENS_PER_STEP` tokens per step.

    With `whole_documents`, every window starts at a document, so that no question loses its notes.
    """
    for step in range(steps):
        length = fixed_length or length_at(step / steps)
        num_rows, last = TOKENS_PER_STEP // length, len(data.ids) - length - 1
        if whole_documents:
            starts = data.starts[torch.randint(int((data.starts < last).sum()), (num_rows, 1))]
        else:
            starts = torch.randint(last, (num_rows, 1))
        window = starts + torch.arange(length + 1)
        yield data.ids[window].long(), data.weights[window]
