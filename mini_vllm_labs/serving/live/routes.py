"""Serves the page at `/`, its files, and the routes that it calls."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import Field

from mini_vllm_labs.pictures.picture import read_asset
from mini_vllm_labs.serving.errors import ApiError
from mini_vllm_labs.serving.limits import read_body
from mini_vllm_labs.serving.live.drawing_process import WantedPicture
from mini_vllm_labs.serving.live.open_pages import LiveStream, OpenPages
from mini_vllm_labs.serving.live.pace_and_crowd import MAX_PER_SECOND, MAX_STEPS_PER_SECOND
from mini_vllm_labs.serving.live.recent_steps import bill_of
from mini_vllm_labs.serving.routes.common import require_api_key
from mini_vllm_labs.serving.routes.fields import Fields, parse
from mini_vllm_labs.serving.served_model import ServedModel

PAGE = Path(__file__).parent / "page"
SHARED = ("controls.js", "motion.js", "following.js")
EXPORTS = "export { make, button, choice, travel, isMotionWanted, mark, about, keyOf, TRAVEL };\n"
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Width = Annotated[int, Field(ge=300, le=1100)]
Height = Annotated[int, Field(ge=150, le=2000)]


class LookBody(Fields):
    """The picture that a page wants to show from now on."""

    viewer: str
    step: Annotated[int, Field(ge=0)] | None = None
    width: Width
    height: Height
    follow: Annotated[str, Field(max_length=200)] = ""
    with_text: bool = False


class PaceBody(Fields):
    """The maximum pace of the engine; None means full speed, and 0 means paused."""

    steps_per_second: Annotated[float, Field(ge=0, le=MAX_STEPS_PER_SECOND)] | None


class CrowdBody(Fields):
    """The number of synthetic requests that arrive per second."""

    requests_per_second: Annotated[float, Field(ge=0, le=MAX_PER_SECOND)]


def live_router(served: ServedModel) -> APIRouter:
    """Return the routes. The page and its files are public; the routes that they call need the API key."""
    router, pages = APIRouter(), OpenPages(served)
    router.include_router(files_router())
    router.include_router(
        control_router(served, pages), dependencies=[Depends(require_api_key(served.settings.api_key))]
    )
    return router


def files_router() -> APIRouter:
    """Return the routes for the files. `shared.js` is the code that the page shares with the notebooks' player."""
    router = APIRouter()
    # Listed just once, so that a name in a URL is only looked up here and never becomes a path.
    files = {path.name: path for path in PAGE.iterdir() if path.suffix in (".js", ".css")}
    shared = "".join(map(read_asset, SHARED)) + EXPORTS

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers=HEADERS)

    @router.api_route("/live/page/shared.js", methods=["GET", "HEAD"])
    async def shared_code() -> Response:
        return Response(shared, media_type="text/javascript", headers=HEADERS)

    @router.api_route("/live/page/{name}", methods=["GET", "HEAD"])
    async def file(name: str) -> FileResponse:
        if name not in files:
            raise ApiError(404, f"the page has no file {name}", code="not_found")
        return FileResponse(files[name], headers=HEADERS)

    return router


def require_own_page(request: Request) -> None:
    """Raise `ApiError` unless the request may open a stream, which occupies one of the available streams until it ends.

    A page from a different site sends no `Origin` with a plain GET, but every browser states how the sites are related.
    """
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise ApiError(403, "only a page from this server may open its stream", code="host_not_allowed")
    if request.scope["http_version"] == "1.0":
        raise ApiError(505, "a stream needs HTTP/1.1", code="http_version_not_supported")


def control_router(served: ServedModel, pages: OpenPages) -> APIRouter:
    """Return the routes for the stream and the controls."""
    router = APIRouter()
    with_page = [Depends(pages.require_page)]

    @router.get("/live/stream")
    async def stream(
        request: Request,
        width: Annotated[int, Query(ge=300, le=1100)] = 720,
        height: Annotated[int, Query(ge=150, le=2000)] = 480,
    ) -> LiveStream:
        require_own_page(request)
        return LiveStream(pages, await pages.open(WantedPicture(width=width, height=height)))

    @router.post("/live/look")
    async def look(request: Request) -> JSONResponse:
        body = parse(LookBody, await read_body(request, served.settings))
        viewer = pages.viewer(body.viewer)
        viewer.look = WantedPicture(**body.model_dump(exclude={"viewer"}))
        viewer.changed.set()
        return JSONResponse({})

    @router.post("/live/pace", dependencies=with_page)
    async def pace(request: Request) -> JSONResponse:
        pages.pace.set(parse(PaceBody, await read_body(request, served.settings)).steps_per_second)
        return JSONResponse(await pages.status())

    @router.post("/live/step", dependencies=with_page)
    async def step(request: Request) -> JSONResponse:
        parse(Fields, await read_body(request, served.settings))
        await pages.pace.step()
        return JSONResponse(await pages.status())

    @router.post("/live/crowd", dependencies=with_page)
    async def crowd(request: Request) -> JSONResponse:
        pages.crowd.set(parse(CrowdBody, await read_body(request, served.settings)).requests_per_second)
        return JSONResponse(await pages.status())

    @router.get("/live/bills/{request_id}", dependencies=with_page)
    async def bill(request_id: str) -> JSONResponse:
        """Return a request's costs if it has recently ended, otherwise null."""
        found = await served.llm.call_during_step(partial(bill_of, request_id=request_id))
        return JSONResponse(found and asdict(found))

    return router
