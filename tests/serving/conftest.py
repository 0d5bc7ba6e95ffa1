"""One server on the fake model for all tests of the protocol, and one on the embedded model."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from mini_vllm import LLM, EngineConfig, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from tests.own_thread import pytest_pyfunc_call
from tests.serving.running import ServerUnderTest, serving

__all__ = ["pytest_pyfunc_call"]
EMBEDDED = EngineConfig(num_gpu_blocks=200)


@pytest.fixture(scope="session")
def fake_server() -> Iterator[ServerUnderTest]:
    with serving() as server:
        yield server


@pytest.fixture
def server(fake_server: ServerUnderTest) -> ServerUnderTest:
    """The server that `client` uses; a file whose tests break their server gets a separate one."""
    return fake_server


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[ServerUnderTest]:
    llm = LLM(config=EMBEDDED, lineup=parse_lineup("solution"))
    with serving(AsyncLLM(llm.engine)) as server:
        yield server


@pytest.fixture(scope="session")
def offline() -> LLM:
    """The same engine without a server."""
    return LLM(config=EMBEDDED, lineup=parse_lineup("solution"))


@pytest.fixture
def client(server: ServerUnderTest) -> Iterator[OpenAI]:
    with server.client_of() as client:
        yield client


@pytest.fixture
def embedded(embedded_server: ServerUnderTest) -> Iterator[OpenAI]:
    with embedded_server.client_of() as client:
        yield client
