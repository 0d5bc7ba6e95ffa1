"""Makes the embedded model, or its draft model; `README.md` in this folder lists the commands.

Writes a `save_pretrained` directory with a config, bfloat16 weights, a tokenizer with a chat template, and a README
with the seed, loss and hash.
"""

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mini_vllm import LLM, SamplingParams
from mini_vllm_labs.upkeep.tiny_model.corpus import LOOKING_UP, Document, Mixture, corpus
from mini_vllm_labs.upkeep.tiny_model.rows import CONTEXT, Encoded, batches, encode, make_tokenizer

VALIDATION_SEED = 2


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
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


def make_draft(target: Path) -> LlamaForCausalLM:
    """Return an untrained Llama like the model in `target`, but with one layer of half the width."""
    config = LlamaConfig.from_pretrained(target, num_hidden_layers=1, hidden_size=128, dtype=torch.float32)
    return LlamaForCausalLM(config)


def answered(documents: Iterable[Document], target: Path) -> list[Document]:
    """Replace every answer in the chats with the greedy answer of the model in `target`."""
    llm, made = LLM(str(target)), list(documents)
    chats = [document.messages for document in made if document.messages]
    for turn in range(1, max(map(len, chats))):
        asked = [chat for chat in chats if turn < len(chat) and chat[turn]["role"] == "assistant"]
        outputs = llm.chat([chat[:turn] for chat in asked], SamplingParams(max_tokens=160))
        for chat, output in zip(asked, outputs, strict=True):
            chat[turn]["content"] = output.outputs[0].text
    return made


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy over the weighted targets; `ids` and `weights` are [rows, length + 1]."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    kept = weights[:, 1:].flatten().float()
    return (losses * kept).sum() / kept.sum()


@torch.no_grad()
def validation_loss(model: LlamaForCausalLM, data: Encoded) -> float:
    """Return the loss over 24 windows of 1,024 tokens of validation text."""
    window = torch.arange(24)[:, None] * 1024 + torch.arange(1025)
    return sum(loss_of(model, data.ids[row].long()[None], data.weights[row][None]).item() for row in window) / 24


def train(
    model: LlamaForCausalLM, windows: Iterable[tuple[torch.Tensor, torch.Tensor]], steps: int, peak_rate: float
) -> None:
    """Train with AdamW, 100 steps of warm-up and a cosine decay to 2% of the peak learning rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak_rate, betas=(0.9, 0.95), weight_decay=0.05)
    started = time.monotonic()
    for step, (ids, weights) in enumerate(windows, start=1):
        cosine = 0.02 + 0.49 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = peak_rate * min(1.0, step / 100) * cosine
        loss = loss_of(model, ids, weights)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == steps:
            print(f"step {step}/{steps}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s", flush=True)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, about: str, loss: float) -> None:
    """Write the weights and a README that describes the model and its training."""
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.bos_token_id],
        pad_token_id=tokenizer.pad_token_id,
        do_sample=False,
    )
    model.bfloat16().save_pretrained(out)
    weights = out / "model.safetensors"
    weights.chmod(0o644)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    parameters = sum(p.numel() for p in model.parameters())
    (out / "README.md").write_text(
        f"{about}\n"
        "| | |\n|---|---|\n"
        f"| last run | `python -m mini_vllm_labs.upkeep.tiny_model.train {' '.join(sys.argv[1:])}` |\n"
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
    parser.add_argument("--draft-of", type=Path, help="make the model that drafts for this one")
    parser.add_argument("--seed", type=int, default=1, help="of the text and of the first weights")
    parser.add_argument("--notes-share", type=float, default=0.5, help="share of the chats that are about notes")
    parser.add_argument("--looking-up", action="store_true", help="few notes, many questions; rows of whole documents")
    parser.add_argument(
        "--about-share", type=float, default=0.7, help="share of such a chat's questions that are about it"
    )
    parser.add_argument("--one-kind-share", type=float, default=0.0, help="share of such chats with notes of one kind")
    parser.add_argument("--length", type=int, default=0, help="tokens per row; 0: 256, then 512, then 1024")
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--peak-rate", type=float, default=3e-3)
    parser.add_argument("--characters", type=int, default=14_000_000)
    arguments = parser.parse_args()
    mixture = LOOKING_UP if arguments.looking_up else Mixture(arguments.notes_share)
    mixture = replace(mixture, about_share=arguments.about_share, one_kind_share=arguments.one_kind_share)
    torch.manual_seed(arguments.seed)
    text: Iterable[Document] = corpus(arguments.seed, arguments.characters, mixture)
    held_out: Iterable[Document] = corpus(VALIDATION_SEED, 200_000)
    source = arguments.draft_of or arguments.init
    if source:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(source)
    else:
        tokenizer = make_tokenizer(corpus(arguments.seed, arguments.characters // 4))
    if arguments.init:
        model = LlamaForCausalLM.from_pretrained(arguments.init, dtype=torch.float32)
    else:
        model = make_draft(source) if source else make_model(tokenizer)
    if arguments.draft_of:
        text, held_out = answered(text, source), answered(held_out, source)
    data = encode(text, tokenizer)
    print(f"{len(data.ids):,} training tokens, {data.weights.float().mean():.0%} of them carry loss", flush=True)
    whole_documents = arguments.looking_up or bool(arguments.draft_of)
    windows = batches(data, arguments.steps, arguments.length, whole_documents=whole_documents)
    train(model, windows, arguments.steps, arguments.peak_rate)
    loss = validation_loss(model, encode(held_out, tokenizer))
    about = Path(__file__).with_name("about_draft.md" if arguments.draft_of else "about_embedded.md")
    save(model, tokenizer, arguments.out, about.read_text(encoding="utf-8"), loss)
    if not arguments.draft_of:
        tokenizer.save_pretrained(arguments.out)
    print(f"validation loss {loss:.3f}; written to {arguments.out}")


if __name__ == "__main__":
    main()
