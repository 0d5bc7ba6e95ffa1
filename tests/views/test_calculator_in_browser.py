"""The page's calculator has the figures of Python's, over a grid of settings, and its dots are in the same places."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.simulator.gpus import GPUS
from course.simulator.model_shapes import MODEL_SHAPES
from course.views.calculator import calculator
from course.views.calculator.drawing import FRONT_END, draw, tables
from course.views.panels import as_answer
from tests.views.test_time_machine_in_browser import BOXES, collisions

WIDTHS = (460, 600, 720, 1080)
DOT = re.compile(r'cx="([\d.]+)" cy="([\d.]+)" r="6"')
DRAWN = """async ([source, tables, questions]) => {
  const { draw } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  return questions.map((question) => draw(question, tables)); }"""


def settings() -> Iterator[dict[str, Any]]:
    """Every model on every GPU, with the other knobs at both ends and in the middle."""
    machines = product((shape.name for shape in MODEL_SHAPES), (gpu.name for gpu in GPUS), (1, 8), (1, 2))
    knobs = list(product((0.3, 0.9, 0.98), (8, 16, 128), (512, 8192, 131_072), (1, 64, 512)))
    for number, (model, gpu, num_gpus, size) in enumerate(machines):
        for utilization, block_size, context_len, max_num_seqs in knobs[number % 7 :: 7]:
            yield {
                "model": model,
                "gpu": gpu,
                "num_gpus": num_gpus,
                "bytes_per_number": size,
                "gpu_memory_utilization": utilization,
                "block_size": block_size,
                "context_len": context_len,
                "max_num_seqs": max_num_seqs,
            }


def drawn_by_page(browser: Any, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the page's answers."""
    page = browser.new_page()
    answers: list[dict[str, Any]] = page.evaluate(DRAWN, [FRONT_END, tables(), questions])
    page.close()
    return answers


def test_the_page_has_pythons_figures_and_dots(browser: Any) -> None:
    questions = [
        {"ticket": n, "values": values, "width": WIDTHS[n % len(WIDTHS)]} for n, values in enumerate(settings())
    ]
    assert len(questions) > 2_000
    answers = drawn_by_page(browser, questions)
    for question, answer in zip(questions, answers, strict=True):
        expected = drawn_by_python(question)
        assert answer.get("error") == expected.get("error")
        assert answer.get("text_alternative") == expected.get("text_alternative")
        assert answer.get("sentence") == expected.get("sentence")
        dots, same = (
            [[float(place) for place in found] for found in DOT.findall(each.get("svg", ""))]
            for each in (answer, expected)
        )
        assert dots == [pytest.approx(place, abs=0.02) for place in same]
    assert 0 < sum("error" in answer for answer in answers) < len(answers) / 2


def drawn_by_python(question: dict[str, Any]) -> dict[str, Any]:
    """Return Python's answer."""
    try:
        return as_answer(0, draw(width=question["width"], **question["values"]))
    except ValueError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("width", [460, 480, 600, 720, 1080])
def test_no_text_of_the_page_is_cut_or_lies_on_another(browser: Any, width: int) -> None:
    chosen = [values for values in settings() if values["model"] != "embedded" and values["context_len"] <= 8192][::40]
    page = browser.new_page(viewport={"width": width, "height": 900})
    for answer in drawn_by_page(browser, [{"ticket": 0, "values": values, "width": width} for values in chosen]):
        page.set_content(f'<body style="margin:0">{answer["svg"]}')
        boxes = page.evaluate(BOXES)
        assert collisions(boxes) == [], answer["text_alternative"]
        assert [box[0] for box in boxes if box[1] < 0 or box[3] > width] == [], answer["text_alternative"]
    page.close()


def test_the_page_answers_without_a_kernel_and_tells_python_on_release(browser: Any) -> None:
    page = open_widget(browser, calculator())
    page.wait_for_function("document.getElementById('host').dataset.answered")
    knob = page.get_by_role("slider", name="max_num_seqs")
    knob.evaluate("(knob) => { knob.value = 8; knob.dispatchEvent(new Event('input', { bubbles: true })); }")
    assert "limit of the batch: max_num_seqs, 8." in page.locator("svg desc").text_content()
    assert page.evaluate("model.saved") == 0
    knob.evaluate("(knob) => knob.dispatchEvent(new Event('change', { bubbles: true }))")
    assert page.evaluate("model.state.question.values.max_num_seqs") == 8
    page.get_by_role("combobox", name="model").select_option("Qwen2.5-7B")
    page.get_by_role("combobox", name="context length in tokens").select_option("65536")
    assert page.get_by_role("alert").text_content().startswith("context_len is 65,536, but Qwen2.5-7B takes")
    page.close()
