"""Measures how often the draft model guesses the embedded model's greedy token.

Run it as `python -m mini_vllm_labs.upkeep.tiny_model.acceptance`.

The chats come from `mini_vllm_labs/bench/speculative.py`. `--write` writes the table into the draft model's README.
"""

import re
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from mini_vllm import LLM, SamplingParams
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.bench.speculative import COPYING, MAX_TOKENS, STORIES, questions
from mini_vllm_labs.upkeep.tiny_model.evaluate import print_table

NUM_CHATS = 32
NUM_DRAFTS = 4
TABLE = re.compile(r"\n\| it guesses \|.*", re.DOTALL)


@torch.inference_mode()
def right_guesses(draft: LlamaForCausalLM, prompt: list[int], answer: list[int]) -> list[bool]:
    """Return, for each token except the first, which has no draft, whether the draft model guesses it."""
    logits = draft(input_ids=torch.tensor([prompt + answer[:-1]])).logits[0, len(prompt) :]
    return [guess == token for guess, token in zip(logits.argmax(-1).tolist(), answer[1:], strict=True)]


def shares(answers: list[list[bool]]) -> list[float]:
    """Return the share of correct guesses by position; a guess counts only if all earlier guesses are correct."""
    runs = [
        [all(right[start : start + position]) for right in answers for start in range(len(right) - position + 1)]
        for position in range(1, NUM_DRAFTS + 1)
    ]
    return [sum(run) / len(run) for run in runs]


def tokens_per_step(answers: list[list[bool]]) -> float:
    """Return the target's mean tokens per step: the guesses before the first wrong one, plus the target's token."""
    num_steps = 0
    for right in answers:
        start = 0
        while start < len(right):
            guesses = right[start : start + NUM_DRAFTS]
            start += 1 + (guesses.index(False) if False in guesses else len(guesses))
            num_steps += 1
    return sum(map(len, answers)) / num_steps


def as_table(draft_directory: Path) -> str:
    """Return the figures of both workloads as a Markdown table."""
    draft = LlamaForCausalLM.from_pretrained(draft_directory, dtype=torch.float32)
    llm = LLM(str(EMBEDDED_MODEL))
    positions = " | ".join(f"token {position}" for position in range(1, NUM_DRAFTS + 1))
    lines = [f"\n| it guesses | {positions} | tokens per step |", "|---" * (NUM_DRAFTS + 2) + "|"]
    for workload in (COPYING, STORIES):
        chats = [[{"role": "user", "content": text}] for text in questions(workload, NUM_CHATS)]
        outputs = llm.chat(chats, SamplingParams(max_tokens=MAX_TOKENS))
        answers = [right_guesses(draft, one.prompt_token_ids, list(one.outputs[0].token_ids)) for one in outputs]
        cells = " | ".join(f"{share:.0%}" for share in shares(answers))
        lines.append(f"| {workload} | {cells} | {tokens_per_step(answers):.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print_table(__doc__, EMBEDDED_MODEL / "draft", as_table, TABLE)
