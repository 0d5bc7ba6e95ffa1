"""Motion and playback in a real browser: which elements move, how fast playback runs and where it stops."""

from typing import Any

import pytest

from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import compare, time_machine
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.sentences import events_in
from tests.chromium import Pages, measure
from tests.views.runs import observed, small
from tests.views.svg_reader import described, numbers
from tests.views.test_base import counter

MOVING_IN = '[data-side="{}-"] [data-id]:not([data-id="cursor-time"])'
PREEMPTION = 6
PLACES = """(selector) => [...document.querySelectorAll(selector)].map((part) => {
  const box = part.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })"""
# Pauses every animation at its start, and returns how many animations there are.
HOLD = """() => { const all = document.getAnimations();
  for (const animation of all) { animation.pause(); animation.currentTime = 0; } return all.length; }"""
MOVING = "() => document.getAnimations().length"


def chip(queue: str, request: int) -> str:
    return f'[data-layer="{queue}"] [data-id="request:{request}"]'


def place(page: Any, selector: str) -> list[float]:
    ((x, y),) = page.evaluate(PLACES, selector)
    return [round(x), round(y)]


@pytest.fixture
def machine(pages: Pages) -> Any:
    """The step before the preemption of r3."""
    return open_widget(pages, player(time_machine(observed()), step=PREEMPTION - 1))


def step_to(page: Any, step: int) -> int:
    """Go to a step, freeze its motion at the first moment, and return how many elements would move."""
    page.evaluate("(step) => model.set('step', step)", step)
    return int(page.evaluate(HOLD))


def test_the_victim_travels_from_running_to_waiting(machine: Any) -> None:
    before = place(machine, chip("running", 3))
    assert step_to(machine, PREEMPTION) > 0
    assert place(machine, chip("waiting", 3)) == before
    machine.evaluate("() => document.getAnimations().forEach((animation) => animation.finish())")
    assert place(machine, chip("waiting", 3))[0] > before[0]


def whereabouts(page: Any, block: int) -> list[float]:
    """Return a block's position: in the free queue, in a table, or otherwise in its cell."""
    places = page.evaluate(PLACES, f'[data-id="block:{block}"]') or page.evaluate(
        PLACES, f'[data-home="block:{block}"]'
    )
    return [round(part) for part in places[-1]]


@pytest.mark.parametrize("recording", [observed(), small(3, 40)], ids=["block tables are shown", "only the pool"])
def test_blocks_travel_from_the_free_queue_to_their_owner_and_back(pages: Pages, recording: Recording) -> None:
    film = time_machine(recording)
    free = [set(numbers(described(picture)["free queue, next first"])) for picture in film.pictures]
    step = next(step for step in range(1, len(film)) if free[step - 1] - free[step] and free[step] - free[step - 1])
    both = {min(free[step - 1] - free[step]), min(free[step] - free[step - 1])}
    page = open_widget(pages, player(film, step - 1))
    before = {block: whereabouts(page, block) for block in both}
    step_to(page, step)
    assert {block: whereabouts(page, block) for block in both} == before
    page.evaluate("() => document.getAnimations().forEach((animation) => animation.finish())")
    assert not [block for block in both if whereabouts(page, block) == before[block]]


def test_motion_takes_a_quarter_of_a_second(machine: Any) -> None:
    machine.evaluate("(step) => model.set('step', step)", PREEMPTION)
    lengths = "() => document.getAnimations().map((animation) => animation.effect.getTiming().duration)"
    assert set(machine.evaluate(lengths)) == {250}
    machine.wait_for_timeout(400)
    assert machine.evaluate(MOVING) == 0


def test_two_runs_in_one_picture_keep_their_elements_apart(pages: Pages) -> None:
    page = open_widget(pages, player(compare(small(), small(), ("one", "the same"))))
    boundary = place(page, '[data-layer="second-headline"]')[1]
    for step in range(1, 6):
        step_to(page, step)
        upper, lower = (page.evaluate(PLACES, MOVING_IN.format(side)) for side in ("first", "second"))
        assert 0 < max(y for _, y in upper) < boundary < min(y for _, y in lower), "at the first moment of the motion"


def test_leaps_and_a_dragged_slider_move_nothing(machine: Any) -> None:
    assert step_to(machine, PREEMPTION + 8) == 0
    slider = machine.get_by_role("slider", name="step")
    box = slider.bounding_box()
    middle, last = box["y"] + box["height"] / 2, 27
    machine.mouse.move(box["x"] + 8, middle)
    machine.mouse.down()
    seen = set()
    for step in range(0, 10):
        machine.mouse.move(box["x"] + 8 + (box["width"] - 16) * step / last, middle)
        seen.add(machine.locator(".mvw").get_attribute("data-step"))
        assert machine.evaluate(MOVING) == 0
    machine.mouse.up()
    assert len(seen) == 10, "single steps, too"
    machine.locator(".mvw").focus()
    machine.keyboard.press("ArrowLeft")
    assert machine.evaluate(MOVING) > 0, "keys move again"


def test_nothing_moves_for_readers_who_want_less_motion(machine: Any) -> None:
    machine.emulate_media(reduced_motion="reduce")
    assert step_to(machine, PREEMPTION) == 0
    assert place(machine, chip("waiting", 3))


@pytest.mark.parametrize(("num_steps", "speed", "seconds"), [(6, 4, 0.3), (6, 1, 1.2), (60, 1, 0.5), (400, 4, 0.075)])
def test_short_films_play_slowly_at_the_chosen_speed(
    pages: Pages, num_steps: int, speed: float, seconds: float
) -> None:
    page = open_widget(pages, player(Film([counter(step) for step in range(num_steps)])))
    for waited in measure(page, "pace", speed):
        assert seconds * 950 <= waited <= seconds * 1000 + 400


def test_the_speed_is_chosen_by_keyboard_in_words(machine: Any) -> None:
    menu = machine.get_by_label("speed of play")
    assert menu.locator("option").all_text_contents() == ["speed 0.5", "speed 1", "speed 2", "speed 4"]
    assert menu.input_value() == "1"
    menu.focus()
    machine.keyboard.press("ArrowDown")
    machine.keyboard.press("ArrowDown")
    assert machine.evaluate("model.state.speed") == 4
    machine.evaluate("model.set('speed', 0.5)")
    assert menu.input_value() == "0.5"


def test_play_stops_at_events_if_wanted(machine: Any) -> None:
    stops = machine.get_by_label("stop at events")
    assert not stops.is_checked()
    assert "preemption" in machine.locator(".mvw-stops").get_attribute("title")
    stops.focus()
    machine.keyboard.press("Space")
    machine.evaluate("model.set('speed', 50); model.set('step', 4)")
    machine.get_by_role("button", name="play or pause").click()
    machine.wait_for_function(f"document.querySelector('.mvw').dataset.step === '{PREEMPTION}'")
    assert machine.locator(".mvw-about").text_content() == "stopped: preemption"
    assert machine.locator("[aria-live=polite]").text_content().startswith("Stopped: preemption. r")
    machine.wait_for_timeout(200)
    assert machine.locator(".mvw").get_attribute("data-step") == str(PREEMPTION)
    machine.get_by_role("button", name="next step").click()
    assert machine.locator(".mvw-about").text_content() == ""


def test_a_film_without_events_offers_no_stops(pages: Pages) -> None:
    page = open_widget(pages, player(Film([counter(0), counter(1)])))
    assert page.get_by_label("stop at events").count() == 0


def test_the_events_are_those_of_the_steps() -> None:
    found = {step: events for step, events in enumerate(events_in(observed())) if events}
    records = observed().steps
    for event, field in (("preemption", "preempted"), ("finish", "finished")):
        expected = [record["step"] for record in records if record[field]]  # type: ignore[literal-required]
        assert [step for step, events in found.items() if event in events] == expected != []
    hits = [record["step"] for record in records if any(share.get("hit") for share in record["scheduled"])]
    assert [step for step, events in found.items() if "prefix hit" in events] == hits != []
    assert events_in(small(), observed())[PREEMPTION] == events_in(observed(), small())[PREEMPTION]
