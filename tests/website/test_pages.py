"""The built pages: no link is dead, no answer is revealed, and no part of the texts is lost."""

import ast
import codecs
import json
import posixpath
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import leaks, secret_lines
from mini_vllm_labs.runs.starter_status import starter_path
from mini_vllm_labs.upkeep.site.website.build import write_sources
from mini_vllm_labs.upkeep.site.website.texts import IN_LAB, hints_in, page_text, up
from tests.website.conftest import Page

HANDOUTS = sorted(path.parent.name for path in CHECKOUT.glob("labs/*/README.md"))
WORDS = re.compile(r"\w+")


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: dict[str, Page], root: Path) -> None:
    lost = []
    for path, page in site.items():
        for link in [
            *page.all("a", "href"),
            *page.all("img", "src"),
            *page.all("script", "src"),
            *page.all("link", "href"),
        ]:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path)))
            target = path if not parts.path else f"{target}/index.html" if parts.path.endswith(("/", ".")) else target
            if target.startswith("lab/"):  # these pages are not built here
                ok = bool(target == "lab/lab/index.html" and IN_LAB.fullmatch(parts.query.removeprefix("path=")))
                ok = ok and (CHECKOUT / parts.query.removeprefix("path=")).is_file()
            elif parts.fragment and posixpath.normpath(target) in site:
                ok = parts.fragment in site[posixpath.normpath(target)].ids
            else:
                ok = (root / "some/course" / target).is_file()
            if not ok:
                lost.append((path, link))
    assert lost == []


def test_every_page_has_one_title_a_way_into_the_lab_and_neighbours(site: dict[str, Page]) -> None:
    assert len(site) > 25
    for path, page in site.items():
        assert Counter(tag for tag, _ in page.tags)["h1"] == 1, path
        assert any("lab/lab/index.html?path=notebooks/" in link for link in page.all("a", "href")), path
        assert {"next", "prev"} & set(page.all("link", "rel")), path
    assert any("01_scheduler_step" in link for link in site["labs/phase1_scheduler_step/index.html"].all("a", "href"))


def test_no_page_gives_a_solution_away_or_shows_a_check(site: dict[str, Page], root: Path) -> None:
    written = {path: page.text.encode() for path, page in site.items()}
    written["index"] = (root / "some/course/search/search_index.json").read_bytes().replace(b"\\n", b"\n")
    assert leaks(written, secret_lines(CHECKOUT)) == []
    raw = {path: path.read_text("utf-8") for path in (root / "some/course").rglob("*.html")}
    assert [path for path, text in raw.items() if re.search("(<|&lt;)!-- *(check|with solutions|end)", text)] == []
    assert [path for path in (root / "some/course").rglob("*") if "solution" in path.name] == []


def test_the_one_file_leaves_open_what_a_learner_writes(
    site: dict[str, Page], root: Path, edition: dict[str, bytes]
) -> None:
    write_sources(edition, root / "sources", has_chat=True)
    text = (root / "sources/pages/one-file.md").read_text("utf-8")
    tree = ast.parse("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for phase in range(1, 7):
        for node in ast.parse(starter_path(phase).read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = {"PagedKVCacheManager": "KVCacheManager", "RecomputePreemption": "Preemption"}.get(
                    node.name, node.name
                )
                name = {"HashPrefixCache": "PrefixCache", "ChunkedPrefillPolicy": "ChunkPolicy"}.get(name, name)
                for one in ast.walk(defined[name]):
                    if isinstance(one, ast.FunctionDef):
                        assert "NotImplementedError" in ast.unparse(one.body[-1]), one.name
    assert "_sample_row" not in defined
    # If the live demo is built, it is the first picture.
    landing = (root / "sources/pages/index.md").read_text("utf-8")
    assert '<iframe class="chat" src="chat/index.html" title=' in landing
    assert "chat/index.html" not in site["index.html"].all("iframe", "src")


# the glossary does not have any part that could be folded
@pytest.mark.parametrize("handout", [one for one in HANDOUTS if one != "glossary"])
def test_hints_and_answers_are_folded_and_unknown_to_the_search(
    handout: str, site: dict[str, Page], root: Path
) -> None:
    page, folder = site[f"labs/{handout}/index.html"], CHECKOUT / "labs" / handout
    index = json.loads((root / "some/course/search/search_index.json").read_text("utf-8"))
    known = "".join(one["text"] for one in index["docs"] if handout in one["location"])
    handed_out = re.sub(r"<!--.*?-->", "", (folder / "README.md").read_text("utf-8"), flags=re.DOTALL)
    secret = re.findall(r"<details><summary>.*?</summary>(.*?)</details>", handed_out, re.DOTALL)
    plain = words(re.sub(r"<details>.*?</details>", "", handed_out, flags=re.DOTALL))
    if (folder / "hints.rot13").exists():
        hints = hints_in(codecs.decode((folder / "hints.rot13").read_text("utf-8"), "rot13"))
        secret += [text for steps in hints.values() for _, text in steps]
        assert page.text.count("Hint 1 of ") == len(hints) > 0
    assert len(secret) == Counter(tag for tag, _ in page.tags if "open" not in dict(_))["details"] > 0
    shown, folded, known = words(page.text), words(page.folded), words(known)
    for text in secret:
        first = words(text)[:40]
        assert first in folded
        assert shown.count(first) - folded.count(first) == plain.count(first), first
        assert first not in known or first in plain, first


def words(text: str) -> str:
    """Return a text without its markup, spaces and list numbers, which a page stores as attributes."""
    return "".join(WORDS.findall(re.sub(r"^\s*\d+\. ", "", text, flags=re.MULTILINE)))


def shape_of(page: Page) -> Counter[str]:
    """Return how many blocks of each kind a page's text has, and the numbers at which its lists begin."""
    kinds = ("ul", "li", "tr", "td", "pre", "details", "h2", "h3", "img", "em", "strong")
    numbers = Counter(f"from {attributes.get('start', 1)}" for tag, attributes in page.tags if tag == "ol")
    return numbers + Counter(tag for tag, _ in page.tags if tag in kinds)


@pytest.mark.parametrize(
    "path", [*(f"labs/{one}/README.md" for one in HANDOUTS), "labs/README.md", "docs/architecture.md"]
)
def test_a_page_has_the_blocks_that_the_text_has_on_github(path: str, edition: dict[str, bytes], root: Path) -> None:
    built = (root / "some/course" / path.replace("README.md", "index.html").replace(".md", "/index.html")).read_text(
        "utf-8"
    )
    article = built.partition("<article")[2].partition("</article>")[0]
    article = re.sub(r'<details class="hint".*?(?=<h[123] |$)', "", article, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", edition[path].decode(), flags=re.DOTALL)
    expected = Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert shape_of(Page(article)) == shape_of(expected)


def test_links_keep_their_words_where_the_site_has_no_page() -> None:
    pages = {"labs/README.md", "labs/phase1_x/README.md"}

    def written(text: str, path: str = "labs/phase1_x/README.md") -> str:
        return page_text(text, path, pages)

    assert written("[map](../README.md#words)") == "[map](../README.md#words)"
    assert written("[one](https://example.org) [two](#words)") == "[one](https://example.org) [two](#words)"
    assert written("see [`the log`](../../CHANGELOG.md).") == "see `the log`."
    for name in ("00_tour", "06_gpu_runner"):  # the lab also has a page for the notebooks that it cannot run
        link = f'href="../../lab/lab/index.html?path=notebooks/{name}.ipynb"'
        assert link in written(f"[it](../../notebooks/{name}.ipynb)")
    assert written("```\n[x](y.md) <!-- no -->\n```\na <!-- check: f() --> b") == "```\n[x](y.md) <!-- no -->\n```\na b"
    assert [up(path) for path in ("index.md", "gallery.md", "labs/README.md", "labs/a/README.md", "docs/a.md")] == [
        *("./", "../", "../", "../../", "../../")
    ]
