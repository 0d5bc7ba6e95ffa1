"""Implements the front end of several replicas, which chooses a replica for each request and relays the bytes."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from mini_vllm_labs.serving.errors import ApiError, engine_error, install_error_handlers, unavailable
from mini_vllm_labs.serving.limits import KnownHosts, ended_by_disconnect, read_body
from mini_vllm_labs.serving.router.policies import Router, prefix_of_bytes
from mini_vllm_labs.serving.router.replicas import SECONDS_TO_ANSWER, Replica, Replicas

# Headers that describe a single connection, that each side writes for itself, or that have already been checked here.
HOP_BY_HOP = {"connection", "content-length", "date", "host", "keep-alive", "origin", "server", "transfer-encoding"}
logger = logging.getLogger(__name__)
GENERATING = ("/v1/completions", "/v1/chat/completions")


def create_front(replicas: Replicas, router: Router) -> FastAPI:
    front = Front(replicas, router)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(front.watch())
        yield
        watching.cancel()
        await front.client.aclose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.state.front = front
    install_error_handlers(app)
    app.add_middleware(KnownHosts, settings=replicas.settings)
    app.add_api_route("/health", front.health, methods=["GET", "HEAD"])
    app.add_api_route("/metrics", front.metrics, methods=["GET", "HEAD"])
    for path in GENERATING:
        app.add_api_route(path, front.generate, methods=["POST"])
    app.add_api_route("/{path:path}", front.pass_on, methods=["GET", "HEAD", "POST"])
    return app


class Front:
    """Relays requests and answers between clients and replicas."""

    def __init__(self, replicas: Replicas, router: Router) -> None:
        self.replicas = replicas
        self.router = router
        # Replicas queue requests and end late ones; a limit here would delay requests without any metric counting them.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
        self.client = httpx.AsyncClient(limits=limits, timeout=None, trust_env=False)

    async def watch(self) -> None:
        """Check all replicas every second."""
        while True:
            await self._look()
            await asyncio.sleep(1)

    async def _look(self) -> None:
        await asyncio.gather(*map(self._look_at, self.replicas.all))

    async def _look_at(self, replica: Replica) -> None:
        """Record whether a replica accepts requests, and warn in the terminal when it stops doing so."""
        before, replica.problem = replica.problem, await self._problem_of(replica)
        if replica.problem and not before and not self.replicas.is_shutting_down:
            logger.error("replica %d takes no more requests: %s", replica.index, replica.problem)

    async def _problem_of(self, replica: Replica) -> str:
        if not replica.is_alive:
            return replica.problem or f"its process has exited with code {replica.process.exitcode}"
        try:
            answer = await self.client.get(f"{replica.address}/health", timeout=SECONDS_TO_ANSWER)
        except httpx.TimeoutException:
            return replica.note_silence()
        except httpx.HTTPError as error:
            return f"it cannot be reached: {error}"
        replica.num_silent, told = 0, answer.json()
        replica.notice = told.get("message", "")
        return "" if answer.status_code == 200 else str(told["error"]["message"])

    async def health(self) -> JSONResponse:
        """Report each replica's state, and why any replica is refusing requests; the status is 503 if none accepts
        requests."""
        await self._look()
        states, problems = {str(one.index): not one.problem for one in self.replicas.all}, self.replicas.problems
        if self.replicas.is_shutting_down or not any(states.values()):
            raise self._no_replica()
        return JSONResponse({"status": "ok", "replicas": states} | ({"message": problems} if problems else {}))

    async def metrics(self) -> Response:
        """Return the metrics of every replica that responds."""
        pages = {replica.index: await self._get(replica, "/metrics") for replica in self.replicas.alive}
        page = merged_page({index: text for index, text in pages.items() if text is not None})
        return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def generate(self, request: Request) -> Response:
        """Send a prompt to the replica that the router chooses."""
        body = await read_body(request, self.replicas.settings)
        return await self._send(request, body, prefix_of_bytes(body))

    async def pass_on(self, request: Request) -> Response:
        """Send any other request to the least busy replica, because all replicas would give the same answer."""
        body = await read_body(request, self.replicas.settings) if request.method == "POST" else b""
        return await self._send(request, body, None)

    async def _send(self, request: Request, body: bytes, prefix: list[int] | None) -> Response:
        if self.replicas.is_shutting_down:
            raise unavailable("the server is shutting down and accepts no more requests", "shutting_down")
        # The page names the replica that it shows, so that chats started there appear in the picture.
        engine = request.query_params.get("engine")
        untried = {one.index: one for one in self.replicas.usable if engine in (None, str(one.index))}
        while untried:
            loads = {index: replica.num_unfinished for index, replica in untried.items()}
            replica = untried.pop(min(loads) if prefix is None else self.router.choose(prefix, loads))
            try:
                return await self._answer_of(replica, request, body)
            except httpx.TransportError:
                # The answer has not started yet, so a different replica may answer.
                self.router.forget(replica.index)
                await self._look_at(replica)
        raise self._no_replica("" if engine is None else f" {engine}")

    def _no_replica(self, which: str = "") -> ApiError:
        return unavailable(f"no replica{which} takes requests. {self.replicas.problems}".rstrip(), "no_replica")

    async def _answer_of(self, replica: Replica, request: Request, body: bytes) -> Response:
        """Wait for the headers of a replica's answer. Raises `httpx.TransportError` if the replica does not respond."""
        headers = [(name, value) for name, value in request.headers.raw if name.decode() not in HOP_BY_HOP]
        url = str(request.url.replace(scheme="http", netloc=replica.address.removeprefix("http://")))
        upstream = self.client.build_request(request.method, url, headers=headers, content=body)
        replica.num_unfinished += 1
        answer = None
        try:
            async with ended_by_disconnect(request.receive):
                answer = await self.client.send(upstream, stream=True)
        finally:
            if answer is None:
                replica.num_unfinished -= 1
        if answer is None:
            return Response(status_code=499)  # the client has disconnected and will not see an answer
        kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        if answer.status_code == 503:
            replica.num_unfinished -= 1
            content = await answer.aread()
            if b'"engine_dead"' in content:
                raise httpx.RemoteProtocolError("the replica's engine has stopped")
            return Response(content, answer.status_code, kept)
        return StreamingResponse(self._bytes_of(answer, replica), answer.status_code, kept)

    async def _bytes_of(self, answer: httpx.Response, replica: Replica) -> AsyncIterator[bytes]:
        """Yield the answer as it arrives. The request ends when this generator does, however the generator ends."""
        try:
            async for part in answer.aiter_raw():
                # not decoded, because the header that names the encoding is relayed as well
                yield part
        except httpx.HTTPError:
            if "text/event-stream" not in answer.headers.get("content-type", ""):
                raise
            error = engine_error(f"replica {replica.index} has ended in the middle of the answer")
            yield f"data: {json.dumps(error.body)}\n\ndata: [DONE]\n\n".encode()
        finally:
            replica.num_unfinished -= 1  # must come first, because `aclose` may be cancelled
            await answer.aclose()

    async def _get(self, replica: Replica, path: str) -> str | None:
        """Return a replica's answer to a GET request, or None if its status is not 200."""
        with suppress(httpx.HTTPError):
            answer = await self.client.get(f"{replica.address}{path}", timeout=5)
            return answer.text if answer.status_code == 200 else None
        return None


class MergedMetrics(Collector):
    """Collects the metrics of several replicas; a replica's index becomes the `engine` label of its samples."""

    def __init__(self, pages: Mapping[int, str]) -> None:
        self.pages = pages

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for index, page in self.pages.items():
            for family in text_string_to_metric_families(page):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += [
                    sample._replace(labels={**sample.labels, "engine": str(index)}) for sample in family.samples
                ]
        yield from families.values()


def merged_page(pages: Mapping[int, str]) -> bytes:
    return generate_latest(MergedMetrics(pages))
