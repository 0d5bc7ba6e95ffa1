"""The logprobs of a prompt's own tokens are the model's, whatever the cache and the chunks are; lm-eval reads them.

lm-eval's `local-completions` scores a continuation by one request with `echo`: the last row is a token that it does
not want, the rows from the length of the context on are the continuation's. It is greedy if each own logprob equals
the largest of its row exactly.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.runner.loading import load_model
from tests.serving.running import COMPLETION, HELLO, MODEL, ServerUnderTest, serving

SCORING: dict[str, Any] = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
GENERATING: dict[str, Any] = {"temperature": 0, "max_tokens": 24, "seed": 1234, "stop": ["\n\n", "<|endoftext|>"]}
CONTEXT = "Once upon a time, there was a little"
TEXT = "Once upon a time, Mina had a red kite. What is the capital of Norway? Zebra quartz 17!"
FIELDS: dict[str, Any] = {"echo": True, "logprobs": 3, "temperature": 0}


@dataclass(frozen=True)
class Scored:
    """What lm-eval makes of a choice: the logprob of the continuation, and whether greedy decoding would say it."""

    logprob: float
    is_greedy: bool

    @classmethod
    def read(cls, choice: dict[str, Any], context: int) -> "Scored":
        own, tops = (choice["logprobs"][name][context:-1] for name in ("token_logprobs", "top_logprobs"))
        return cls(sum(own), all(one == max(top.values()) for one, top in zip(own, tops, strict=True)))


def from_transformers(token_ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return transformers' logprob of each token but the first, and the largest in its place."""
    model: Any = load_model()[0].model
    with torch.inference_mode():
        rows = model(input_ids=torch.tensor([token_ids])).logits[0].float().log_softmax(dim=-1)[:-1]
    return rows.gather(1, torch.tensor(token_ids[1:])[:, None])[:, 0], rows.max(dim=-1).values


def expected(context: list[int], continuation: list[int]) -> Scored:
    own, largest = (part[len(context) - 1 :] for part in from_transformers(context + continuation))
    return Scored(own.sum().item(), bool((own == largest).all()))


def ask(server: ServerUnderTest, prompt: Any, fields: dict[str, Any]) -> list[dict[str, Any]]:
    status, answer = server.post(COMPLETION, model=MODEL, prompt=prompt, **fields)
    assert status == 200, answer
    return sorted(answer["choices"], key=lambda choice: int(choice["index"]))


def requests_of(llm: LLM) -> list[tuple[list[int], list[int]]]:
    """Return contexts and continuations: greedy and unlikely ones, of one token and of many, and a text's end."""
    encode = llm.engine.tokenizer.encode
    context, [chat] = encode(CONTEXT), [llm.engine.tokenizer.apply_chat_template(HELLO)]
    said = llm.generate([context, chat])
    greedy, answer = (output.outputs[0].token_ids for output in said)
    pairs = [(context, list(greedy[:5])), (context, encode(" zebra quartz")), (context, list(greedy[:1]))]
    pairs += [(context[:1], context[1:]), (chat, list(answer)), (chat + list(answer), context[:1])]
    return pairs


@pytest.mark.parametrize("num_at_once", [1, 8])
def test_continuations_are_scored_as_by_transformers(
    embedded_server: ServerUnderTest, offline: LLM, num_at_once: int
) -> None:
    pairs = requests_of(offline)
    found = list[Scored]()
    for start in range(0, len(pairs), num_at_once):
        batch = pairs[start : start + num_at_once]
        choices = ask(embedded_server, [context + rest for context, rest in batch], SCORING)
        for (context, rest), choice in zip(batch, choices, strict=True):
            assert len(choice["logprobs"]["token_logprobs"]) == len(context) + len(rest) + 1
            found.append(Scored.read(choice, len(context)))
    wanted = [expected(*pair) for pair in pairs]
    assert [one.is_greedy for one in found] == [one.is_greedy for one in wanted]
    assert {one.is_greedy for one in wanted} == {True, False}
    assert [one.logprob for one in found] == pytest.approx([one.logprob for one in wanted], abs=1e-3)


def test_a_text_that_would_end_after_the_prompt_still_has_its_last_row(
    embedded_server: ServerUnderTest, offline: LLM
) -> None:
    tokenizer = offline.engine.tokenizer
    prompt = next(
        prompt
        for text in ("hello", "Tell me a story about Mina and a kite.", "What is the capital of Norway?")
        for prompt in [ending(offline, tokenizer.apply_chat_template([{"role": "user", "content": text}]))]
        if prompt
    )
    [choice] = ask(embedded_server, [prompt], SCORING)
    assert choice["finish_reason"] == "stop"
    assert len(choice["logprobs"]["token_logprobs"]) == len(prompt) + 1
    assert Scored.read(choice, len(prompt) - 3).logprob == pytest.approx(
        expected(prompt[:-3], prompt[-3:]).logprob, abs=1e-3
    )


def ending(llm: LLM, prompt: list[int]) -> list[int]:
    """Return a prompt with its whole answer, after which the model ends; empty if it says more than fits."""
    [output] = llm.generate([prompt], SamplingParams(max_tokens=300))
    said = list(output.outputs[0].token_ids)
    if output.outputs[0].finish_reason != "stop":
        return []
    return prompt + [token for token in said if token not in llm.engine.tokenizer.eos_token_ids]


@pytest.mark.parametrize("as_tokens", [True, False])
def test_texts_are_generated_in_the_order_of_the_prompts(
    embedded_server: ServerUnderTest, offline: LLM, as_tokens: bool
) -> None:
    texts = [CONTEXT, "The cat sat on"]
    prompts: list[Any] = [offline.engine.tokenizer.encode(text) for text in texts] if as_tokens else texts
    together = [choice["text"] for choice in ask(embedded_server, prompts, GENERATING)]
    assert together == [ask(embedded_server, [prompt], GENERATING)[0]["text"] for prompt in prompts]
    assert len(set(together)) == 2
    assert not any(stop in text for text in together for stop in GENERATING["stop"])


def require_right(server: ServerUnderTest, prompt: str | list[int], token_ids: list[int], max_tokens: int) -> None:
    status, answer = server.post(COMPLETION, prompt=prompt, max_tokens=max_tokens, **FIELDS)
    assert status == 200, answer
    [choice] = answer["choices"]
    rows, (own, largest) = choice["logprobs"], [part.tolist() for part in from_transformers(token_ids)]
    size = len(token_ids)
    assert len(rows["tokens"]) == size + max_tokens == len(rows["text_offset"])
    assert "".join(rows["tokens"]) == choice["text"]
    assert choice["text"].startswith(TEXT)
    assert rows["token_logprobs"][0] is rows["top_logprobs"][0] is None
    assert rows["token_logprobs"][1:size] == pytest.approx(own, abs=1e-4)
    assert [max(top.values()) for top in rows["top_logprobs"][1:size]] == pytest.approx(largest, abs=1e-4)
    assert answer["usage"]["completion_tokens"] == max_tokens
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize(
    "options", [{}, {"enable_prefix_caching": False}, {"max_num_batched_tokens": 16, "max_num_seqs": 4}]
)
def test_logprobs_of_a_prompt_are_those_of_transformers(options: dict[str, Any]) -> None:
    llm = LLM(config=EngineConfig(num_gpu_blocks=300, **options), lineup=parse_lineup("solution"))
    token_ids = llm.engine.tokenizer.encode(TEXT)
    with serving(AsyncLLM(llm.engine)) as server:
        require_right(server, TEXT, token_ids, 0)
        require_right(server, token_ids, token_ids, 2)
        one = server.post(COMPLETION, prompt=token_ids[:1], max_tokens=0, **FIELDS)[1]["choices"][0]["logprobs"]
        assert one["token_logprobs"] == [None]
        server.wait_until_idle()


def test_a_stream_begins_with_the_logprobs_of_its_prompt(embedded_server: ServerUnderTest) -> None:
    whole = embedded_server.post(COMPLETION, prompt="abcdef", max_tokens=2, **FIELDS)[1]["choices"][0]["logprobs"]
    with embedded_server.client_of() as client:
        chunks = client.completions.create(model="mini-vllm", prompt="abcdef", max_tokens=2, stream=True, **FIELDS)
        parts = [chunk.choices[0].logprobs for chunk in chunks]
    assert [token for part in parts if part for token in part.tokens or ()] == whole["tokens"]


def test_no_text_without_echo_is_refused(fake_server: ServerUnderTest) -> None:
    assert fake_server.post(COMPLETION, prompt="abc", max_tokens=0)[1]["param"] == "max_tokens"
