"""Panels in a real browser: knobs send questions, only the newest answer is drawn, and the page matches the
simulator."""

import json
from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from mini_vllm_labs.pictures.batching import batching_panel
from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.calculator import Setup, calculator, capacity_of
from mini_vllm_labs.pictures.calculator.panel import FIRST
from mini_vllm_labs.pictures.chunking_dial import chunking_dial
from mini_vllm_labs.pictures.knobs import Slider
from mini_vllm_labs.pictures.panels import FilmPanel, Panel
from mini_vllm_labs.pictures.picture import WIDTH, read_asset
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.simulation.gpus import GPUS
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES
from mini_vllm_labs.upkeep.pictures.calculator import drawn, first_picture
from tests.chromium import Pages
from tests.views.svg_reader import SVG
from tests.views.test_base import KNOBS, budget_picture, counting
from tests.views.test_layout_in_browser import readable

ANSWER = """([ticket, words]) => model.set("answer",
  { ticket, svg: `<svg class="mv"><text>${words}</text></svg>`, sentence: words, text_alternative: words })"""
SETTLED = "model.state.answer.ticket > 0 && model.state.answer.ticket === model.state.question.ticket"
NEWS = "(news) => { for (const [name, value] of Object.entries(news)) model.set(name, value); }"


@pytest.fixture
def panel(pages: Pages) -> Any:
    return open_widget(pages, Panel(KNOBS, budget_picture))


def asked(panel: Any) -> list[Any]:
    return [value for name, value in panel.evaluate("model.sent") if name == "question"]


def answer(page: Any, made: Panel) -> None:
    """Have Python answer the page's newest question."""
    made.question = page.evaluate("model.state.question")
    page.evaluate(NEWS, {name: getattr(made, name) for name in ("film", "step", "answer") if made.has_trait(name)})


def grip(page: Any, slider: Any) -> Any:
    """Press the mouse in a slider's middle; return a function that drags it to a fraction of its length."""
    box = slider.bounding_box()
    middle, radius = box["y"] + box["height"] / 2, 8
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    return lambda share: page.mouse.move(box["x"] + radius + (box["width"] - 2 * radius) * share, middle, steps=5)


def test_a_moving_knob_asks_and_the_newest_value_wins(panel: Any) -> None:
    budget = panel.get_by_role("slider", name="token budget")
    panel.get_by_role("combobox", name="policy").select_option("priority")
    assert [q["values"] for q in asked(panel)] == [{"budget": 32, "policy": "priority", "caching": True}]
    grip(panel, budget)(1)
    assert len(asked(panel)) == 1, "one question is pending at a time"
    assert budget.get_attribute("aria-valuetext") == "64 tokens"
    panel.evaluate(ANSWER, [1, "first"])
    assert panel.locator("svg text").text_content() == "first"
    assert [q["values"]["budget"] for q in asked(panel)] == [32, 64], "the values in between were never sent"
    panel.evaluate(ANSWER, [asked(panel)[-1]["ticket"], "new"])
    assert panel.locator("svg text").text_content() == "new", "the mouse is still down"
    panel.mouse.up()
    assert len(asked(panel)) == 2, "the release asks nothing more"


def test_a_stale_answer_is_not_drawn_and_a_refusal_leaves_the_picture(panel: Any) -> None:
    panel.get_by_role("checkbox").click()
    panel.evaluate(ANSWER, [0, "stale"])
    assert "32 fcfs True" in panel.locator("svg text").text_content()
    panel.evaluate("model.set('answer', { ticket: 1, error: 'caching needs phase 2' })")
    assert panel.get_by_role("alert").text_content() == "caching needs phase 2"
    assert "32 fcfs True" in panel.locator("svg text").text_content()


def test_a_busy_kernel_and_a_lost_one_are_told_in_words(panel: Any) -> None:
    status = panel.locator(".mvw-waiting")
    panel.get_by_role("checkbox").click()
    assert status.text_content() == "", "an answer within a second needs no words"
    panel.wait_for_function("document.querySelector('.mvw-waiting').textContent")
    assert status.text_content() == "Waiting for the kernel ..."
    panel.evaluate(ANSWER, [1, "at last"])
    assert status.text_content() == ""
    panel.evaluate("model.widget_manager = { kernel: { status: 'idle' } }")
    panel.get_by_role("checkbox").click()
    panel.wait_for_function("document.querySelector('.mvw-waiting').textContent")
    assert "The kernel was restarted or has stopped: run this cell again." in status.text_content()


def test_a_front_end_that_knows_of_the_restart_is_believed_at_once(panel: Any) -> None:
    panel.evaluate("document.body.classList.add('jupyter-widgets-disconnected')")
    panel.evaluate("for (const heard of listeners.comm_live_update) heard()")
    assert "run this cell again" in panel.locator(".mvw-waiting").text_content()


def test_knobs_set_from_python_move_on_the_page(panel: Any) -> None:
    panel.evaluate("model.set('question', {ticket: 5, values: {budget: 48, policy: 'priority', caching: false}})")
    assert panel.get_by_role("slider").input_value() == "48"
    assert panel.get_by_role("combobox", name="policy").evaluate("(menu) => menu.selectedIndex") == 1
    assert not panel.get_by_role("checkbox").is_checked()


def count(num_steps: int) -> Any:
    """Return a run with as many steps as its knob is set to."""
    film = counting(num_steps)
    comparison = [("steps", "9", str(num_steps)), ("errors", "0", "0")]
    drawn = {"film": lambda: film, "picture": lambda step, width=WIDTH: film[step]}
    return SimpleNamespace(num_steps=num_steps, comparison=comparison, sentence=f"It counts to {num_steps}.", **drawn)


def test_a_player_under_knobs_has_the_steps_of_its_run(pages: Pages) -> None:
    made = FilmPanel([Slider("num_steps", "steps", 9, 1, 20)], count, step=8)
    page = open_widget(pages, made, width=1100)
    step, knob = (page.get_by_role("slider", name=name, exact=True) for name in ("step", "steps"))
    step.wait_for()
    assert (step.get_attribute("max"), step.input_value()) == ("8", "8")
    assert page.locator(".mvw-turned").count() == 0, "nothing is changed yet"
    knobs, player = (page.locator(part).bounding_box() for part in (".mvw-controls", "#host > .mvw"))
    assert knobs["x"] + knobs["width"] <= player["x"], "beside the player in a wide page"
    assert abs(knobs["y"] - player["y"]) < 30
    knob.fill("5")
    answer(page, made)
    assert page.locator("svg text").text_content() == "4", "the last step of the new run, before its film is there"
    assert page.locator(".mvw-turned").text_content() == "9 → 5steps"
    assert "It counts to 5." in page.locator(".mvw-tiles").text_content()
    page.wait_for_function("model.state.question.whole")
    answer(page, made)
    assert (step.get_attribute("max"), step.input_value()) == ("4", "4")
    step.press("ArrowLeft")
    assert page.locator("svg text").text_content() == "3"


def test_a_dragged_budget_leaves_a_ghost(pages: Pages) -> None:
    made = chunking_dial(num_requests=200)
    page = open_widget(pages, made)
    page.wait_for_function("model.state.question.width === 780")
    answer(page, made)
    assert page.locator("svg .mv-ghost").count() == 0
    grip(page, page.get_by_role("slider", name="max_num_batched_tokens"))(1)
    assert page.evaluate("model.state.question.values.max_num_batched_tokens") < 8192, "asked while the mouse moves"
    answer(page, made)
    assert page.evaluate("model.state.question.values.max_num_batched_tokens") == 8192
    answer(page, made)
    assert page.locator("svg .mv-title").text_content() == "Token budget 8,192, no limit for long prompts"
    assert page.locator("svg .mv-ghost").count() == 3, "in the legend and in both charts"
    assert "max_num_batched_tokens 2,048 → 8,192" in page.locator("svg desc").text_content(), "the setting at rest"


def test_the_end_of_a_bar_is_dragged_like_a_knob(pages: Pages) -> None:
    page = open_widget(pages, batching_panel(), is_answered=True)
    page.wait_for_function(SETTLED)
    bar = page.locator('[data-drag="longest"] rect').first.bounding_box()
    end, y = bar["x"] + bar["width"], bar["y"] + bar["height"] / 2
    page.mouse.move(end - 2, y)
    page.mouse.down()
    page.mouse.move(end - bar["width"] / 2, y, steps=5)
    assert page.get_by_role("slider", name="answer B").input_value() == "10", "half of 20"
    page.mouse.up()
    page.wait_for_function(f"{SETTLED} && model.state.question.values.longest === 10")
    assert page.locator('[data-drag="longest"] rect').first.bounding_box()["width"] == pytest.approx(
        bar["width"] / 2, abs=2
    )
    page.mouse.move(end, y)
    assert page.get_by_role("slider", name="answer B").input_value() == "10", "the mouse is up"


@pytest.mark.parametrize("made", [batching_panel, lambda: player(counting(3))], ids=["panel", "player"])
def test_a_widget_fills_the_screen_and_its_picture_is_saved_in_the_colours_of_the_page(pages: Pages, made: Any) -> None:
    page = open_widget(pages, made(), dark=True)
    page.add_style_tag(content=":root { --jp-layout-color0: rgb(1, 2, 3); }")
    files = {}
    for kind in ("svg", "png"):
        with page.expect_download() as saving:
            page.get_by_label("save the picture").select_option(kind)
        files[kind] = saving.value.path().read_bytes()
        assert saving.value.suggested_filename.endswith(f".{kind}")
    drawn = ElementTree.fromstring(files["svg"])
    assert drawn.tag == f"{SVG}svg"
    style = str(drawn.get("style")).replace(" ", "")
    assert ("--mv-paper:rgb(1,2,3);" in style, "color-scheme:dark;" in style) == (True, True)
    size = [2 * int(float(side)) for side in str(drawn.get("viewBox")).split()[2:]]
    assert [int.from_bytes(files["png"][at : at + 4]) for at in (16, 20)] == size, "twice as sharp"
    page.get_by_role("button", name="full screen").click()
    page.wait_for_function("document.fullscreenElement?.matches('.mvw')")
    page.get_by_role("button", name="full screen").click()
    page.wait_for_function("!document.fullscreenElement")


WIDTHS = (460, 480, 600, 720, 1080)
NAMES = ("model", "gpu", "num_gpus", "bytes_per_number", "gpu_memory_utilization", "block_size", "context_len")


def questions() -> Iterator[dict[str, Any]]:
    """Every model on every GPU, with the other knobs at both ends and in the middle, at every width."""
    machines = product((shape.name for shape in MODEL_SHAPES), (gpu.name for gpu in GPUS), (1, 8), (1, 2))
    knobs = list(product((0.3, 0.9, 0.98), (8, 16, 128), (512, 8192, 131_072), (1, 64, 512), (512, 32_768)))
    for number, machine in enumerate(machines):
        for place, knob in enumerate(knobs[number % 13 :: 13]):
            values = dict(zip((*NAMES, "max_num_seqs", "max_num_batched_tokens"), (*machine, *knob), strict=True))
            yield {"ticket": number, "values": values, "width": WIDTHS[(number + place) % len(WIDTHS)]}


NUMBERS = {
    "numBlocks": "num_blocks", "concurrency": "concurrency", "batchSize": "batch_size", "usableBytes": "usable_bytes",
    "weightBytes": "weight_bytes", "activationBytes": "activation_bytes", "workspaceBytes": "workspace_bytes",
    "kvPerBlock": "kv_bytes_per_block", "kvBytes": "kv_bytes", "saturation": "saturation_batch", "ridge": "ridge",
}  # fmt: skip
WORKS = {"perSecond": "tokens_per_second", "intensity": "intensity", "flopRate": "flop_rate", "numBytes": "num_bytes"}


def test_the_page_computes_what_the_simulator_does(pages: Pages) -> None:
    given = list(questions())
    assert len(given) > 2_000
    answers = drawn(pages.new_page(), given)
    for question, answer in zip(given, answers, strict=True):
        if "error" in answer:
            with pytest.raises(ValueError, match="context_len is"):
                capacity_of(Setup(**question["values"]))
            continue
        found, expected = answer["capacity"], capacity_of(Setup(**question["values"]))
        assert bool(found["problem"]) == bool(expected.problem)
        assert {name: found[name] for name in NUMBERS} == pytest.approx(
            {name: getattr(expected, theirs) for name, theirs in NUMBERS.items()}
        )
        for work in ("decode", "prefill"):
            assert {name: found[work][name] for name in WORKS} == pytest.approx(
                {name: getattr(getattr(expected, work), theirs) for name, theirs in WORKS.items()}
            )
    assert 0 < sum("error" in answer for answer in answers) < len(answers) / 2


def test_python_shows_the_pages_first_picture(pages: Pages) -> None:
    kept = json.loads(read_asset(FIRST))
    assert first_picture(pages.new_page()) == kept, "python -m mini_vllm_labs.upkeep.pictures.calculator"
    assert kept["content"].split('class="notches"')[0].rsplit('d="', 1)[1].count("M") == 55
    assert capacity_of(Setup()).concurrency == 55


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_of_the_pages_calculator_is_cut_or_lies_on_another(pages: Pages, width: int) -> None:
    page = pages.new_page(viewport={"width": width, "height": 900})
    given = [question for question in questions() if question["width"] == width]
    for answer in drawn(page, given)[::8]:
        if "svg" in answer:
            page.set_content(f'<body style="margin:0">{answer["svg"]}')
            readable(page, answer["text_alternative"])


def test_the_calculator_answers_without_a_kernel_and_tells_python_on_release(pages: Pages) -> None:
    page = open_widget(pages, calculator())
    page.wait_for_function("document.getElementById('host').dataset.answered")
    knob = page.get_by_role("slider", name="max_num_seqs")
    knob.evaluate("(knob) => { knob.value = 8; knob.dispatchEvent(new Event('input', { bubbles: true })); }")
    assert "limit of the batch: max_num_seqs, 8." in page.locator("svg desc").text_content()
    assert page.evaluate("model.saved") == 0
    knob.evaluate("(knob) => knob.dispatchEvent(new Event('change', { bubbles: true }))")
    assert page.evaluate("model.state.question.values.max_num_seqs") == 8
    page.get_by_role("combobox", name="model").select_option("Qwen2.5-7B")
    assert page.locator("svg .mv-title").text_content() == "Qwen2.5-7B with 16-bit numbers on H100"
    page.get_by_role("combobox", name="context length in tokens").select_option("65536")
    assert page.get_by_role("alert").text_content().startswith("context_len is 65,536, but Qwen2.5-7B accepts")
    assert page.locator("svg .mv-title").text_content() == "Qwen2.5-7B with 16-bit numbers on H100"
