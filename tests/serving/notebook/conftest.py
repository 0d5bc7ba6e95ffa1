"""A notebook's server on the fake model, which needs no torch, and the requests of the tests' clients."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletion

from mini_vllm import EngineConfig
from mini_vllm_labs.notebook import Lab
from mini_vllm_labs.notebook.serving import LabServer

CONFIG = EngineConfig(
    block_size=8,
    num_gpu_blocks=129,
    max_num_batched_tokens=512,
    max_model_len=512,
    max_num_waiting=2,
    check_invariants=True,
)


@pytest.fixture
def server() -> Iterator[LabServer]:
    made = LabServer(Lab(5, "solution"), CONFIG)
    assert made.problem is None, made.problem
    yield made
    made.close()


def message(text: str) -> Any:
    return {"model": "mini-vllm", "messages": [{"role": "user", "content": text}]}


def ask(text: str, max_tokens: int) -> Callable[[OpenAI], ChatCompletion]:
    def answer(client: OpenAI) -> ChatCompletion:
        whole: ChatCompletion = client.chat.completions.create(**message(text), max_tokens=max_tokens)
        return whole

    return answer


def stream(text: str, max_tokens: int) -> Callable[[OpenAI], Iterator[str | None]]:
    def pieces(client: OpenAI) -> Iterator[str | None]:
        for event in client.chat.completions.create(**message(text), max_tokens=max_tokens, stream=True):
            yield event.choices[0].delta.content

    return pieces
