"""One Ray cluster on this machine for all tests, with two replicas."""

import socket
from collections.abc import Iterator
from typing import Any

import openai
import pytest

KEY = "a key"


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of the application."""
    import ray
    from ray import serve

    from serving.ray_serve.deployment import app

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        arguments = {"num_replicas": "2", "lineup": "solution:1-5", "num_gpu_blocks": "400", "api_key": KEY}
        serve.run(app(arguments), name="mini-vllm", route_prefix="/")
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        yield client
