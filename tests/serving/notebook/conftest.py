"""A server of a notebook on the fake model, which needs no torch."""

from collections.abc import Iterator

import pytest

from course.notebook import Lab
from mini_vllm import EngineConfig
from serving.notebook import LabServer

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
