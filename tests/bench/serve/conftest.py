"""What the tests of the serving benchmark share."""

from collections.abc import Iterator

import pytest

from tests.bench.serve.stub import Stub, running_stub
from tests.cli.conftest import mini_vllm

__all__ = ["mini_vllm"]


@pytest.fixture(scope="session")
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running
