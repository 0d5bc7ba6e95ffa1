"""`serve run serving.ray_serve.deployment:app num_replicas=2`: replicas of the engine behind one address.

Two deployments: engines, each the whole application of `mini-vllm serve` without its socket, and a front end that
reads a request, lets the router choose an engine, and passes the answer on.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from starlette.types import Message

from mini_vllm.assembly.lineup import lineup_from_env, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from serving.app import create_app
from serving.engine_spec import EngineSpec
from serving.errors import ApiError
from serving.limits import read_body
from serving.ray_serve.asgi_call import PlainRequest, call_app
from serving.settings import ServerSettings

ROUTER = "serving.ray_serve.prefix_router.PrefixAwareRequestRouter"


class Engine:
    """One engine with its application."""

    async def __init__(self, engine: EngineSpec, settings: ServerSettings) -> None:  # type: ignore[misc]
        self.settings = settings
        self.llm = AsyncLLM(engine.open())
        self.app = create_app(self.llm, settings)
        self.running = self.app.router.lifespan_context(self.app)
        await self.running.__aenter__()

    async def answer(self, request: PlainRequest) -> AsyncGenerator[Message, None]:
        """Yield the messages of the answer to a request."""
        async for message in call_app(self.app, request):
            yield message

    async def check_health(self) -> None:
        """Raise `RuntimeError` if the engine cannot go on: Ray then starts another replica."""
        if not self.llm.is_alive or self.llm.seconds_in_step > self.settings.step_timeout:
            raise RuntimeError("the engine's thread has ended, or is in a step that does not end")

    async def __del__(self) -> None:
        await self.llm.shutdown(self.settings.shutdown_timeout)


class Front:
    """Passes requests to engines."""

    def __init__(self, engines: DeploymentHandle, settings: ServerSettings) -> None:
        self.engines = engines.options(stream=True)
        self.settings = settings

    async def __call__(self, request: Request) -> Response:
        """Return the answer of the engine that the router chooses."""
        try:
            body = await read_body(request, self.settings) if request.method == "POST" else b""
        except ApiError as error:
            return error.response()
        query: bytes = request.scope["query_string"]
        plain = PlainRequest(request.method, request.url.path, query, request.headers.raw, body)
        messages = self.engines.answer.remote(plain)
        head = await anext(aiter(messages))
        response = StreamingResponse(_bytes_of(messages), head["status"])
        response.raw_headers = [item for item in head["headers"] if item[0] != b"content-length"]
        return response


async def _bytes_of(messages: Any) -> AsyncIterator[bytes]:
    """Yield the answer as it comes. A client that hangs up ends this generator, and so the request."""
    try:
        async for message in messages:
            yield message.get("body", b"")
    finally:
        messages.cancel()


def app(args: dict[str, str]) -> serve.Application:
    """Return the application. `args`: `num_replicas`, `lineup`, `model`, `num_gpu_blocks`, `api_key`."""
    lineup = parse_lineup(args["lineup"]) if "lineup" in args else lineup_from_env()
    config = EngineConfig(num_gpu_blocks=int(args["num_gpu_blocks"]) if "num_gpu_blocks" in args else None)
    settings = ServerSettings(api_key=args.get("api_key"))
    engines: Any = serve.deployment(
        num_replicas=int(args.get("num_replicas", "1")),
        max_ongoing_requests=1024,
        request_router_config=RequestRouterConfig(request_router_class=ROUTER),
    )(Engine)
    front: Any = serve.deployment(Front)
    return front.bind(engines.bind(EngineSpec(config, lineup, args.get("model")), settings), settings)
