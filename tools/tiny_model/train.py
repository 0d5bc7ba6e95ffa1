"""Make the embedded model, in two runs on two cores: 30 minutes for English, 20 for reading notes.

    python -m tools.tiny_model.train STAGE_1
    python -m tools.tiny_model.train OUT_DIR --init STAGE_1 --seed 3 --notes-share 0.9 --length 512 \
        --steps 1200 --peak-rate 1e-3

Writes a `save_pretrained` directory: config, bfloat16 weights, tokenizer with chat template, and a
README with seed, loss and hash. Nothing is downloaded; the text comes from `corpus.py`.
"""

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tools.tiny_model.corpus import Document, corpus

END_OF_TEXT, TURN_START, TURN_END, PADDING = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY, CONTEXT, TOKENS_PER_STEP = 2048, 2048, 4096
VALIDATION_SEED = 2


def pieces(made: Document) -> list[tuple[str, bool]]:
    """Return the document as (text, carries loss) pieces. Questions are random: predicting them teaches nothing."""
    if made.text:
        return [(made.text + END_OF_TEXT, True)]
    parts: list[tuple[str, bool]] = []
    for message in made.messages:
        parts.append((f"{TURN_START}{message['role']}\n", False))
        parts.append((message["content"] + TURN_END, message["role"] == "assistant"))
        parts.append(("\n", False))
    return [*parts, (END_OF_TEXT, True)]


def make_tokenizer(documents: Iterable[Document]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer that takes digits one by one."""
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


def encode(documents: Iterable[Document], tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all token ids in one row, and for each whether it carries loss."""
    ids: list[int] = []
    weights: list[bool] = []
    backend = tokenizer.backend_tokenizer
    for made in documents:
        for text, carries_loss in pieces(made):
            encoded = backend.encode(text).ids
            ids += encoded
            weights += [carries_loss] * len(encoded)
    return torch.tensor(ids, dtype=torch.int32), torch.tensor(weights)


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return an untrained Llama of 2.8 million parameters."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=512,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy over the weighted targets; `ids` and `weights` are [rows, length + 1]."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    kept = weights[:, 1:].flatten().float()
    return (losses * kept).sum() / kept.sum()


def length_at(progress: float) -> int:
    """Return the sequence length at a share of the training: short first, because attention is quadratic."""
    return 256 if progress < 0.45 else 512 if progress < 0.8 else 1024


def batches(
    ids: torch.Tensor, weights: torch.Tensor, steps: int, fixed_length: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (ids, weights) of random windows, `TOKENS_PER_STEP` tokens a step."""
    for step in range(steps):
        length = fixed_length or length_at(step / steps)
        starts = torch.randint(len(ids) - length - 1, (TOKENS_PER_STEP // length, 1))
        window = starts + torch.arange(length + 1)
        yield ids[window].long(), weights[window]


@torch.no_grad()
def validation_loss(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> float:
    """Return the loss over 24 windows of 1,024 tokens that the training never sees."""
    window = torch.arange(24)[:, None] * 1024 + torch.arange(1025)
    return sum(loss_of(model, ids[row].long()[None], weights[row][None]).item() for row in window) / 24


def train(
    model: LlamaForCausalLM, data: tuple[torch.Tensor, torch.Tensor], steps: int, peak_rate: float, fixed_length: int
) -> None:
    """Train with AdamW, 100 steps of warm-up and a cosine decay to 2% of the peak learning rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_rate, betas=(0.9, 0.95), weight_decay=0.05)
    started = time.monotonic()
    for step, (ids, weights) in enumerate(batches(*data, steps, fixed_length), start=1):
        cosine = 0.02 + 0.49 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = peak_rate * min(1.0, step / 100) * cosine
        loss = loss_of(model, ids, weights)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps:
            print(f"step {step}/{steps}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s", flush=True)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, loss: float, made_by: str) -> None:
    """Write weights, tokenizer and the README with the recipe."""
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.bos_token_id],
        pad_token_id=tokenizer.pad_token_id,
        do_sample=False,
    )
    model.bfloat16().save_pretrained(out)
    tokenizer.save_pretrained(out)
    weights = out / "model.safetensors"
    weights.chmod(0o644)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    parameters = sum(p.numel() for p in model.parameters())
    (out / "README.md").write_text(
        "# The embedded model\n\n"
        "A Llama that fits in a repository. It tells short stories and knows a small world; it is here to be\n"
        "served, not to be right. It was trained on text written by `tools/tiny_model` and on nothing else;\n"
        "that is where the whole recipe stands. `python -m tools.tiny_model.evaluate --write` makes the last\n"
        "table.\n\n"
        "| | |\n|---|---|\n"
        f"| last run | `python -m tools.tiny_model.train {made_by}` |\n"
        f"| parameters | {parameters:,} |\n"
        f"| seed of the held-out text | {VALIDATION_SEED} |\n"
        f"| validation loss | {loss:.3f} nats per token, assistant turns and stories only |\n"
        f"| SHA-256 of model.safetensors | `{digest}` |\n",
        encoding="utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--init", type=Path, help="start from this model and its tokenizer")
    parser.add_argument("--seed", type=int, default=1, help="of the text and of the first weights")
    parser.add_argument("--notes-share", type=float, default=0.5, help="share of the chats that are about notes")
    parser.add_argument("--length", type=int, default=0, help="tokens per row; 0: 256, then 512, then 1024")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--peak-rate", type=float, default=3e-3)
    parser.add_argument("--characters", type=int, default=14_000_000)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    if arguments.init:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.init)
        model = LlamaForCausalLM.from_pretrained(arguments.init, dtype=torch.float32)
    else:
        tokenizer = make_tokenizer(corpus(arguments.seed, arguments.characters // 4))
        model = make_model(tokenizer)
    data = encode(corpus(arguments.seed, arguments.characters, arguments.notes_share), tokenizer)
    print(f"{len(data[0]):,} training tokens, {data[1].float().mean():.0%} of them carry loss", flush=True)
    train(model, data, arguments.steps, arguments.peak_rate, arguments.length)
    loss = validation_loss(model, *encode(corpus(VALIDATION_SEED, 200_000), tokenizer))
    save(model, tokenizer, arguments.out, loss, " ".join(sys.argv[1:]))
    print(f"validation loss {loss:.3f}; written to {arguments.out}")


if __name__ == "__main__":
    main()
