"""Every page in a browser: axe-core finds no violations, all pages fit a phone, and no other machine is contacted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from tests.chromium import AXE, Pages
from tests.website.conftest import Page

RULES = "wcag2a wcag2aa wcag21a wcag21aa wcag22aa".split()
HEADINGS = {
    name: {"enabled": True} for name in ("heading-order", "page-has-heading-one", "empty-heading", "aria-dialog-name")
}
FOUND = """async (options) => (await axe.run(document, options)).violations
  .map(one => `${one.id}: ${one.nodes.length}, ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`)"""
WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
# A page is as wide as its window even if part of it is cut off, so wider parts must scroll.
CUT = """() => [...document.querySelectorAll("article *")].filter(one => one.scrollWidth > one.clientWidth + 1
  && getComputedStyle(one).overflowX === "hidden" && one.clientWidth > 1).map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture
def strangers(pages: Pages, address: str) -> Iterator[list[str]]:
    """Requests from the test's pages to other machines, which are refused; also fails if a site file is missing."""
    asked: list[str] = []
    open_one = pages.new_page

    def new_page(**options: Any) -> Any:
        page = open_one(**options)

        def let(route: Any) -> None:
            if route.request.url.startswith(address.partition("some/")[0]):
                route.continue_()
            else:
                asked.append(route.request.url)
                route.abort()

        page.route("http*://**", let)
        return page

    pages.new_page = new_page  # type: ignore[method-assign]
    yield asked
    assert asked == []


def test_axe_finds_nothing_on_any_page_in_light_and_dark(
    pages: Pages, strangers: list[str], address: str, site: dict[str, Page], axe: str
) -> None:
    page, found = (
        pages.new_page(color_scheme="light", viewport={"width": 1280, "height": 900}),
        list[tuple[str, str, str]](),
    )
    for path in sorted(site):
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.goto(address + path)
        page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        page.evaluate(axe)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            shown = "slate" if scheme == "dark" else "default"
            page.wait_for_selector(f"body[data-md-color-scheme={shown}]")
            found += [(path, scheme, one) for one in page.evaluate(FOUND, {"runOnly": RULES, "rules": HEADINGS})]
    assert found == []


def test_on_a_phone_no_page_scrolls_sideways_and_nothing_is_cut_off(
    pages: Pages, strangers: list[str], address: str, site: dict[str, Page]
) -> None:
    page, found = pages.new_page(viewport={"width": 360, "height": 740}), list[tuple[str, Any]]()
    for path in sorted(site):
        page.goto(address + path)
        page.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        found += [(path, wide) for wide in (page.evaluate(WIDE), *page.evaluate(CUT)) if wide]
    assert found == []


def test_the_first_page_plays_by_key(pages: Pages, strangers: list[str], address: str) -> None:
    page = pages.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    assert page.locator(".first-steps a").all_inner_texts() == ["Open the lab", "Install it"]
    player = page.locator(".live .mvw")
    player.wait_for()
    assert player.bounding_box()["y"] < 450, "the picture is on the first screen"
    assert "step 5 of 27" in player.inner_text()
    player.get_by_role("button", name="next").first.press("Enter")
    page.wait_for_function("() => document.querySelector('.live .mvw').innerText.includes('step 6 of 27')")
    twin = page.get_by_text("The time machine in words")
    twin.press("Enter")
    assert "r3" in page.locator(".live + details li").nth(6).inner_text()


def test_a_hint_unfolds_step_by_step_by_key_and_the_lab_is_one_key_away(
    pages: Pages, strangers: list[str], address: str
) -> None:
    page = pages.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}labs/phase1_scheduler_step/")
    first, second = (page.get_by_text(f"Hint {number} of 4", exact=False).first for number in (1, 2))
    assert first.is_visible()
    assert not second.is_visible()
    first.press("Enter")
    assert second.is_visible()
    assert "where does the budget live" in first.inner_text()
    link = page.get_by_role("link", name="Try it here")
    link.focus()
    assert link.evaluate("one => one.href") == f"{address}lab/lab/index.html?path=notebooks/01_scheduler_step.ipynb"
    page.keyboard.press("f")  # Material's keyboard shortcut for the search
    page.keyboard.type("free queue")
    page.locator(".md-search-result__item a").first.wait_for()
    page.keyboard.press("Escape")


def test_without_scripts_texts_and_stills_are_there(pages: Pages, address: str) -> None:
    page = pages.new_page(java_script_enabled=False)
    page.goto(f"{address}gallery/")
    assert page.locator(".live img").count() >= 7
    assert all(one.get_attribute("alt") for one in page.locator("article img").all())


def test_the_axe_that_is_pinned_is_the_one_that_the_tests_read() -> None:
    script = Path(CHECKOUT, "mini_vllm_labs/upkeep/install_axe.sh").read_text("utf-8")
    assert AXE.name in script
    assert "sha512sum --check" in script
