"""Train the ranker of `policies/predictors.py`: `python -m tools.length_ranker [--write]`.

It asks the embedded model a few thousand questions, takes the lengths of its answers, learns on two thirds of them
which are the longer ones, and prints Kendall's tau on the rest. With `--write` it keeps weights and the unseen rest.
"""

import argparse
import json
import lzma
import random
from collections.abc import Sequence

import torch

from arena.own_answers import FILE, Answered, kendalls_tau
from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.core.tokenizer import Message
from policies.predictors import WEIGHTS
from tools.tiny_model.corpus import KINDS
from tools.tiny_model.corpus import WEIGHTS as KIND_WEIGHTS

SEED, NUM_PROMPTS, MAX_TOKENS = 3, 2_400, 200
LIST_SIZE, NUM_UPDATES, RATE, DECAY = 32, 1_500, 0.02, 1e-3


def answered_prompts() -> list[Answered]:
    """Return the prompts that are not equal, each with the length of its greedy answer."""
    rng = random.Random(SEED)
    chats: list[list[Message]] = []
    for _ in range(NUM_PROMPTS):
        question, _ = rng.choices(KINDS, KIND_WEIGHTS)[0](rng)
        chats.append([{"role": "user", "content": question}])
    llm = LLM(lineup=parse_lineup("solution"), config=EngineConfig(max_num_seqs=64))
    outputs = llm.chat(chats, SamplingParams(max_tokens=MAX_TOKENS))
    lengths = {tuple(output.prompt_token_ids): len(output.outputs[0].token_ids) for output in outputs}
    return [Answered(prompt, length) for prompt, length in lengths.items()]


def bags(answered: Sequence[Answered], vocab_size: int) -> torch.Tensor:
    """Return [prompts, vocab]: 1 where a prompt holds a token."""
    found = torch.zeros(len(answered), vocab_size)
    for row, one in enumerate(answered):
        found[row, list(set(one.prompt_token_ids))] = 1
    return found


def train(answered: Sequence[Answered], vocab_size: int) -> torch.Tensor:
    """Return a weight for each token, by the list-wise loss of the paper: ListMLE over random lists of prompts."""
    torch.manual_seed(SEED)
    features, lengths = bags(answered, vocab_size), torch.tensor([float(one.num_output_tokens) for one in answered])
    weights = torch.zeros(vocab_size, requires_grad=True)
    optimizer = torch.optim.AdamW([weights], lr=RATE, weight_decay=DECAY)
    for _ in range(NUM_UPDATES):
        drawn = torch.randperm(len(answered))[:LIST_SIZE]
        order = drawn[torch.argsort(lengths[drawn], descending=True)]
        scores = features[order] @ weights
        # The longest of what is left, again and again: minus its score, plus the log of the sum of all from it on.
        loss = (torch.logcumsumexp(scores.flip(0), 0).flip(0) - scores).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach()


def main() -> None:
    """Train, print what the ranker is worth, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the weights and the unseen prompts")
    write = parser.parse_args().write
    answered = answered_prompts()
    vocab_size = 1 + max(max(one.prompt_token_ids) for one in answered)
    middle = len(answered) * 2 // 3
    seen, unseen = answered[:middle], answered[middle:]
    weights = train(seen, vocab_size)
    lengths = [one.num_output_tokens for one in unseen]
    scores = (bags(unseen, vocab_size) @ weights).tolist()
    by_prompt = [float(len(one.prompt_token_ids)) for one in unseen]
    print(f"{len(seen)} prompts seen, {len(unseen)} unseen; answers of {min(lengths)} to {max(lengths)} tokens")
    print(f"Kendall's tau on the unseen ones: {kendalls_tau(scores, lengths):.3f}")
    print(f"  by the length of the prompt:    {kendalls_tau(by_prompt, lengths):.3f}")
    if write:
        kept = {str(token): round(weight, 4) for token, weight in enumerate(weights.tolist()) if abs(weight) > 1e-3}
        WEIGHTS.write_text(json.dumps({"weights": kept}, indent=0), encoding="utf-8")
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_bytes(
            lzma.compress(json.dumps([(one.prompt_token_ids, one.num_output_tokens) for one in unseen]).encode())
        )


if __name__ == "__main__":
    main()
