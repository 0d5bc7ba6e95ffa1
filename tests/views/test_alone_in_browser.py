"""A saved or exported player without a kernel, on white paper: a picture without scripts, a film with them."""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from mini_vllm_labs.pictures.alone import alone
from mini_vllm_labs.pictures.batching import batching_panel
from mini_vllm_labs.pictures.calculator import calculator
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.panels import NEEDS_KERNEL
from mini_vllm_labs.pictures.widgets import Player
from tests.chromium import Pages, measure
from tests.views.test_base import counting

Opened = Callable[..., Any]


def saved(film: Film, step: int = 0) -> str:
    shown: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mini_vllm_labs.pictures.widgets.display", lambda data, **options: shown.append(data))
        Player(film, step)._ipython_display_()
    return str(shown[1]["text/html"])


@pytest.fixture
def opened(pages: Pages) -> Opened:
    """Open a page offline, with or without scripts, on a system in light or dark mode."""

    def open_page(html: str, *, scripts: bool = True, system: str = "light", head: str = "") -> Any:
        page = pages.new_page(offline=True, java_script_enabled=scripts, color_scheme=system)
        page.set_content(f"<!doctype html><head>{head}</head><body>{html}")
        return page

    return open_page


def digit(page: Any, place: int = 0) -> str:
    return str(page.locator('[data-layer="digit"] text').nth(place).text_content())


def test_a_film_is_scrubbed_played_and_followed_without_a_kernel(opened: Opened) -> None:
    page = opened(saved(counting(6), step=2))
    slider = page.get_by_role("slider", name="step")
    slider.wait_for()
    assert (page.locator("img").count(), digit(page)) == (0, "2")
    slider.press("End")
    assert digit(page) == "5"
    slider.fill("3")
    assert digit(page) == "3"
    page.get_by_label("follow a request").select_option("request:1")
    assert page.locator(".mvw-about").text_content() == "it is 3"
    page.get_by_label("speed of play").select_option("4")
    page.get_by_role("button", name="play or pause").click()
    page.wait_for_function("document.querySelector('.mvw').dataset.step === '5'")
    assert page.locator(".mvw details pre").text_content() == "counter: 5"


def test_players_of_one_page_are_apart_and_load_their_code_once(opened: Opened) -> None:
    page = opened(saved(counting(6), step=2) + saved(counting(9), step=8))
    page.locator(".mvw").nth(1).wait_for()
    page.get_by_role("slider", name="step").first.press("Home")
    assert (digit(page), digit(page, 1)) == ("0", "8")
    assert page.evaluate("Object.keys(miniVllmPlayers).length") == 1


def test_a_player_out_of_view_or_hidden_by_its_widget_does_not_start(opened: Opened) -> None:
    far = f'<div style="height:3000px"></div>{saved(counting(3))}'
    page = opened(f'<div style="display:none">{saved(counting(4))}</div>{far}')
    page.wait_for_timeout(200)
    assert page.locator(".mvw").count() == 0
    page.locator("img").nth(1).scroll_into_view_if_needed()
    page.locator(".mvw").wait_for()
    assert page.locator(".mvw").count() == 1


def test_without_scripts_it_is_the_still(opened: Opened) -> None:
    page = opened(saved(counting(6), step=2), scripts=False)
    assert page.locator("img").get_attribute("alt") == "counter, step 2. The counter shows 2."
    assert page.locator("details pre").text_content() == "counter: 2"


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("head", ["", "<style>:root{color-scheme:light}</style>"])
def test_paper_is_white_in_a_page_that_is(opened: Opened, pages: Pages, scripts: bool, system: str, head: str) -> None:
    """On a system in dark mode, a white page and its pictures stay white."""
    page = opened(saved(counting(2)), scripts=scripts, system=system, head=head)
    shown = page.locator(".mvw svg" if scripts else "img")
    shown.wait_for()
    assert paper_of(pages, shown) == 255


def paper_of(pages: Pages, shown: Any) -> int:
    return int(measure(pages.new_page(), "paper", base64.b64encode(shown.screenshot()).decode()))


def test_a_picture_that_is_a_file_follows_the_system(pages: Pages, opened: Opened) -> None:
    data = base64.b64encode(counting(1)[0].svg().encode()).decode()
    image = f'<img src="data:image/svg+xml;base64,{data}">'
    papers = [paper_of(pages, opened(image, system=system).locator("img")) for system in ("light", "dark")]
    assert papers == [255, 17]


def test_a_film_is_in_the_script_once_and_compressed() -> None:
    encoded = counting(200).encode()
    script = alone({"film": encoded, "step": 0})
    assert script.count("<script>") == script.count("</script>") == 1
    assert not re.search(r"https?:", script)
    assert len(script) < len(json.dumps(encoded)) / 3


def test_knobs_turn_in_a_saved_page_where_it_draws_and_else_it_says_so(opened: Opened) -> None:
    page = opened(f"<div>{calculator().still()}</div>")
    knob = page.get_by_role("slider", name="max_num_seqs")
    knob.wait_for()
    before = page.locator(".mvw-picture svg").get_attribute("aria-label")
    knob.press("Home")
    assert page.locator(".mvw-picture svg").get_attribute("aria-label") != before
    assert opened(batching_panel().still()).get_by_text(NEEDS_KERNEL).is_visible()
