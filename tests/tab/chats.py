"""Twenty chats in batches of eight with preemptions, prefix hits and chunks, run natively and in the tab.

In Pyodide this file runs as a script; only `answers` differs between the two.
"""

from typing import Any

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup

SYSTEM = "You are a kind teller of stories and you like long walks. "
QUESTIONS = (
    "Tell me a story about Mina and a kite.", "What is the capital of Norway?", "What is 12 plus 7?",
    "Tell me a story about Ben and a drum.", "Who are you?", "What is the capital of Peru?", "What is 3 plus 9?",
    "Write a story about a boat.", "Tell me about the sea.", "What colour is the sky?", "Copy: red, blue, green.",
    "What is 25 plus 14?", "Tell me a story about Lily.", "What is the capital of Japan?", "Hello!",
    "Tell me a story about a cat and a dog.", "What is 40 minus 8?", "Where is Rome?",
    "Tell me a story about Omar and a bell.", "What is the capital of France?",
)  # fmt: skip
CONFIG = EngineConfig(
    max_num_seqs=8, max_num_batched_tokens=48, num_gpu_blocks=30, block_size=8, max_model_len=200, prepack_weights=False
)


def params_of(number: int) -> SamplingParams:
    """Return greedy settings, or random ones for every fourth chat, with top-k (20), top-p, both or neither."""
    if number % 4:
        return SamplingParams(max_tokens=60)
    top_k, top_p = (20 if number % 12 == 0 else 0), (0.9 if number % 8 == 0 else 1.0)
    return SamplingParams(max_tokens=60, temperature=0.8, seed=number, top_k=top_k, top_p=top_p)


def answers(lineup: str) -> dict[str, Any]:
    """Return the tokens of all chats, and how often the tested events happened."""
    llm = LLM(None, CONFIG, parse_lineup(lineup), record=True, dense=True)
    chats = [[{"role": "user", "content": SYSTEM + question}] for question in QUESTIONS]
    outputs = llm.chat(chats, [params_of(number) for number in range(len(chats))])
    steps = llm.engine.recorder.steps
    shares = [share for step in steps for share in step["scheduled"]]
    return {
        "tokens": [output.outputs[0].token_ids for output in outputs],
        "preemptions": sum(len(step["preempted"]) for step in steps),
        "hits": sum(bool(share.get("hit")) for share in shares),
        "chunks": sum(share["n"] > 1 and share["computed"] > 0 and not share.get("hit") for share in shares),
        "largest": max(len(step["scheduled"]) for step in steps),
    }
