"""The logprobs of a prompt's own tokens are the model's, whatever the cache and the chunks are."""

from typing import Any

import pytest
import torch

from mini_vllm import LLM, EngineConfig, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.runner.loading import load_model
from tests.serving.running import COMPLETION, ServerUnderTest, serving

TEXT = "Once upon a time, Mina had a red kite. What is the capital of Norway? Zebra quartz 17!"
FIELDS: dict[str, Any] = {"echo": True, "logprobs": 3, "temperature": 0}


def expected(token_ids: list[int]) -> tuple[list[float], list[float]]:
    """Return transformers' logprob of each token but the first, and the largest in its place."""
    model: Any = load_model()[0].model
    with torch.inference_mode():
        rows = model(input_ids=torch.tensor([token_ids])).logits[0].float().log_softmax(dim=-1)[:-1]
    own = rows.gather(1, torch.tensor(token_ids[1:])[:, None])[:, 0]
    return own.tolist(), rows.max(dim=-1).values.tolist()


def require_right(server: ServerUnderTest, prompt: str | list[int], token_ids: list[int], max_tokens: int) -> None:
    status, answer = server.post(COMPLETION, prompt=prompt, max_tokens=max_tokens, **FIELDS)
    assert status == 200, answer
    [choice] = answer["choices"]
    rows, (own, largest) = choice["logprobs"], expected(token_ids)
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
def test_they_are_those_of_transformers(options: dict[str, Any]) -> None:
    llm = LLM(config=EngineConfig(num_gpu_blocks=300, **options), lineup=parse_lineup("solution"))
    token_ids = llm.engine.tokenizer.encode(TEXT)
    with serving(AsyncLLM(llm.engine)) as server:
        require_right(server, TEXT, token_ids, 0)
        require_right(server, token_ids, token_ids, 2)
        one = server.post(COMPLETION, prompt=token_ids[:1], max_tokens=0, **FIELDS)[1]["choices"][0]["logprobs"]
        assert one["token_logprobs"] == [None]
        server.wait_until_idle()


def test_a_stream_begins_with_them(embedded_server: ServerUnderTest) -> None:
    whole = embedded_server.post(COMPLETION, prompt="abcdef", max_tokens=2, **FIELDS)[1]["choices"][0]["logprobs"]
    with embedded_server.client_of() as client:
        chunks = client.completions.create(model="mini-vllm", prompt="abcdef", max_tokens=2, stream=True, **FIELDS)
        parts = [chunk.choices[0].logprobs for chunk in chunks]
    assert [token for part in parts if part for token in part.tokens or ()] == whole["tokens"]


def test_no_text_without_echo_is_refused(fake_server: ServerUnderTest) -> None:
    assert fake_server.post(COMPLETION, prompt="abc", max_tokens=0)[1]["param"] == "max_tokens"
