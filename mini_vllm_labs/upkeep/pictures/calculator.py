"""Has the page's code draw the calculator's first picture, and stores that picture for Python.

Run it as `python -m mini_vllm_labs.upkeep.pictures.calculator`.
"""

import json
from collections.abc import Sequence
from typing import Any

from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.pictures.calculator.panel import FIRST, FRONT_END, KNOBS, tables
from mini_vllm_labs.pictures.picture import FOLDER, WIDTH

DRAWN = """async ([source, tables, questions]) => {
  const { draw, capacityOf } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  return questions.map((question) => {
    const answer = draw(question, tables);
    return answer.error ? answer : { ...answer, capacity: capacityOf(question.values, tables) };
  }); }"""
FIRST_QUESTION = {"ticket": 0, "values": {knob.name: knob.value for knob in KNOBS}, "width": WIDTH}


def drawn(page: Any, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the page code's answers to questions, which are in the form that a panel sends."""
    answers: list[dict[str, Any]] = page.evaluate(DRAWN, [FRONT_END, tables(), list(questions)])
    return answers


def first_picture(page: Any) -> dict[str, Any]:
    """Return the first picture: its layers and its texts."""
    [answer] = drawn(page, [FIRST_QUESTION])
    head, layers, rest = answer["svg"].partition("<g data-layer")
    return {
        "title": head.partition("<title>")[2].partition("</title>")[0],
        "height": float(head.partition(' height="')[2].partition('"')[0]),
        "sentence": answer["sentence"],
        "text_alternative": answer["text_alternative"],
        "content": (layers + rest).removesuffix("</svg>"),
    }


if __name__ == "__main__":
    with headless_chromium() as browser:
        found = first_picture(browser.new_page())
    (FOLDER / FIRST).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
