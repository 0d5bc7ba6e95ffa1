"""The website's pages, built once, and served from a folder below a server's root."""

import os
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mini_vllm_labs.classroom.student_edition.edition import compose
from mini_vllm_labs.upkeep.site.website.build import WebsiteError, write_website

VOID = "area base br col embed hr img input link meta source track wbr".split()


class Page(HTMLParser):
    """The parts of a page that tests read: its tags with their attributes, its text, and its collapsed parts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.folded = "", ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open):
            self.text += data
            self.folded += data if "details" in self._open else ""

    def all(self, tag: str, name: str) -> list[str]:
        """Return an attribute's values in all tags of the given kind."""
        return [
            value for found, attributes in self.tags if found == tag and (value := attributes.get(name)) is not None
        ]

    @property
    def ids(self) -> set[str | None]:
        return {attributes.get("id") for _, attributes in self.tags}


@pytest.fixture(scope="session")
def edition() -> dict[str, bytes]:
    return compose()


@pytest.fixture(scope="session")
def root(edition: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a server, with the site in `some/course/`. Skipped without MkDocs; fails under `REQUIRE_SITE`."""
    folder = tmp_path_factory.mktemp("root")
    try:
        write_website(edition, folder / "some/course")
    except WebsiteError as error:
        (pytest.skip if "is missing" in str(error) and not os.environ.get("REQUIRE_SITE") else pytest.fail)(str(error))
    return folder


@pytest.fixture(scope="session")
def site(root: Path) -> dict[str, Page]:
    """The pages by their paths in the site, such as `labs/routing/index.html`."""
    built = root / "some/course"
    return {path.relative_to(built).as_posix(): Page(path.read_text("utf-8")) for path in built.rglob("*.html")}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def address(root: Path) -> Iterator[str]:
    """The address of the site, as served by `python -m http.server`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/some/course/"
        server.shutdown()
