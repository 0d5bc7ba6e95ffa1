"""One server on the fake model for all tests of the protocol, and one on the embedded model."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.llm import LLM
from serving.server import RunningServer, running_server
from tests.own_thread import pytest_pyfunc_call
from tests.serving.running import PATIENCE, fake_llm

__all__ = ["pytest_pyfunc_call"]
EMBEDDED = EngineConfig(num_gpu_blocks=200)


@pytest.fixture(scope="session")
def fake_server() -> Iterator[RunningServer]:
    with running_server(fake_llm()) as server:
        yield server


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[RunningServer]:
    llm = LLM(config=EMBEDDED, lineup=parse_lineup("solution"))
    with running_server(AsyncLLM(llm.engine)) as server:
        yield server


@pytest.fixture(scope="session")
def offline() -> LLM:
    """The same engine without a server."""
    return LLM(config=EMBEDDED, lineup=parse_lineup("solution"))


@pytest.fixture
def client(fake_server: RunningServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=fake_server.base_url, api_key="none", max_retries=0, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def embedded(embedded_server: RunningServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=embedded_server.base_url, api_key="none", max_retries=0, timeout=PATIENCE) as client:
        yield client
