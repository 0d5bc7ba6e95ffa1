"""How soon a picture follows its slider: what is measured is right, how long it took is not tested."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.cli import widget as command
from bench.widget import POOLS, films, measure_widget
from course.browser.chromium import NoBrowserError, find_chromium, headless_chromium
from course.views.film import Film
from tests.cli.conftest import Commands


@pytest.fixture
def _this_browser(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two browsers cannot run in one process."""

    @contextmanager
    def running() -> Iterator[Any]:
        yield browser

    monkeypatch.setattr(command, "headless_chromium", running)


@pytest.mark.usefixtures("_this_browser")
def test_every_pool_is_measured_and_its_steps_are_counted(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "widget", "--steps", "3", "--moves", "2", "--json").stdout)
    assert [pool["num_blocks"] for pool in record["pools"]] == list(POOLS)
    assert all(len(pool["ms"]) == len(pool["frame_ms"]) == 3 for pool in record["pools"])
    assert min(min(pool["ms"]) for pool in record["pools"]) > 0
    assert list(record["panels"]) == ["calculator", "policy bench, SLO", "policy bench, load", "engine panel"]
    assert all(len(times) == 2 and min(times) > 0 for times in record["panels"].values())


@pytest.mark.usefixtures("_this_browser")
def test_the_chart_fits_a_terminal(mini_vllm: Commands) -> None:
    lines = mini_vllm("bench", "widget", "--steps", "1", "--moves", "1").output.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if "2,000 blocks" in line]
    assert [line for line in lines if "nothing changes" in line]


def test_a_picture_that_is_not_its_steps_is_refused(browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, film = next(films())
    monkeypatch.setattr("bench.widget.STEP", "(step) => 1")
    with pytest.raises(RuntimeError, match="the slider is at step 5, but the picture is"):
        measure_widget(browser, 20, Film(list(film.pictures)), 1)


def test_without_a_browser_the_command_says_what_to_install(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_chromium() is None
    with pytest.raises(NoBrowserError, match="install your system's package"), headless_chromium():
        pass
    result = mini_vllm("bench", "widget", exit_code=2)
    assert "no Chromium here" in result.output
