"""Fixtures shared by the tests of the serving benchmark."""

from collections.abc import Iterator

import pytest

from tests.bench.serve.stub import Stub, running_stub
from tests.own_thread import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]


@pytest.fixture(scope="session")
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running
