"""Chunking dial, calculator and policy comparison in a real browser: nothing is cut or covered, knobs work."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import pytest

from course.browser.bare_page import open_widget
from course.simulator.served import Slo
from course.views.calculator import Setup, calculator, calculator_picture, capacity_of
from course.views.chunking_dial import Deployment, Setting, chunking_dial, chunking_picture, try_setting
from course.views.picture import Picture
from course.views.policy_comparison import PolicyComparison, compare_policies, policy_picture
from mini_vllm import parse_lineup
from tests.views.test_time_machine_in_browser import BOXES, collisions


def dials() -> Iterator[Picture]:
    """Every knob at both ends, each setting after the one before it."""
    few = Deployment(num_requests=200)
    ends = product(("mixed", "documents", "burst", "chat"), (50, 120), (256, 8192), (0, 128, 4096), (8, 256))
    trials = [try_setting(Setting(*values), few) for values in ends]
    yield chunking_picture(trials[0])
    yield from (chunking_picture(now, before) for before, now in pairwise(trials))
    yield chunking_picture(try_setting(Setting("documents", 120, 8192), Deployment("L4", num_requests=500)), trials[0])


def calculators() -> Iterator[Picture]:
    """Every knob at both ends, except contexts that the model does not take."""
    hardware = product(("embedded", "Llama-3.1-8B", "Llama-3.1-70B"), ("L4", "B200"), (1, 8), (1, 2), (0.3, 0.98))
    for machine, block_size, context_len, max_num_seqs in product(hardware, (8, 128), (512, 2048, 131_072), (1, 512)):
        if machine[0] != "embedded" or context_len <= 2048:
            yield calculator_picture(capacity_of(Setup(*machine, block_size, context_len, max_num_seqs)))


def benches() -> Iterator[Picture]:
    """Every workload, crowded and alone, with objectives that every request meets and that none meets."""
    lineup = parse_lineup("solution:1-5")
    for workload, (load, blocks, sigma) in product(
        ("chat", "documents", "shared-prefix", "mixed", "burst"), ((50, 4000, 0.0), (200, 800, 2.0))
    ):
        comparison = PolicyComparison(workload, load, blocks, sigma, num_requests=40)
        results = compare_policies(comparison, lineup)
        yield from (policy_picture(comparison, results, slo) for slo in (Slo(0.1, 0.1), Slo(10, 0.005)))


@pytest.mark.parametrize("pictures", [dials, calculators, benches])
def test_no_text_is_cut_or_lies_on_another(browser: Any, pictures: Any) -> None:
    page = browser.new_page(viewport={"width": 720, "height": 900})
    for picture in pictures():
        page.set_content(f'<body style="margin:0">{picture.svg()}')
        boxes = page.evaluate(BOXES)
        assert collisions(boxes) == [], picture.text_alternative
        cut = [box[0] for box in boxes if box[1] < 0 or box[3] > 720 or box[4] > picture.height]
        assert cut == [], picture.text_alternative
        assert not any("…" in box[0] for box in boxes if "before:" not in box[0]), picture.text_alternative
    page.close()


def answered(page: Any, panel: Any) -> None:
    """Let the panel in Python answer the newest request of the page."""
    panel.question = page.evaluate("model.state.question")
    page.evaluate("(answer) => model.set('answer', answer)", panel.answer)


def test_a_dragged_budget_leaves_a_ghost(browser: Any) -> None:
    panel = chunking_dial(num_requests=200)
    page = open_widget(browser, panel)
    page.wait_for_function("model.state.question.width === 780")
    answered(page, panel)
    assert page.locator("svg .mv-ghost").count() == 0
    budget = page.get_by_role("slider", name="max_num_batched_tokens")
    box = budget.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert page.evaluate("model.state.question.values.max_num_batched_tokens") == 4352, "asked while the mouse is down"
    answered(page, panel)
    assert page.evaluate("model.state.question.values.max_num_batched_tokens") == 8192
    answered(page, panel)
    assert page.locator("svg .mv-title").text_content() == "Token budget 8,192, no limit for long prompts"
    assert page.locator("svg .mv-ghost").count() == 3, "in the legend and in both charts"
    assert "max_num_batched_tokens 2,048 → 8,192" in page.locator("svg desc").text_content(), "the setting at rest"
    page.close()


def test_a_menu_and_a_refusal_reach_the_reader(browser: Any) -> None:
    panel = calculator()
    page = open_widget(browser, panel, dark=True)
    page.get_by_role("combobox", name="model").select_option("Qwen2.5-7B")
    answered(page, panel)
    assert page.locator("svg .mv-title").text_content() == "Qwen2.5-7B with 16-bit numbers on H100"
    page.get_by_role("combobox", name="context length in tokens").select_option("65536")
    answered(page, panel)
    assert page.get_by_role("alert").text_content().startswith("context_len is 65,536, but Qwen2.5-7B takes")
    assert page.locator("svg .mv-title").text_content() == "Qwen2.5-7B with 16-bit numbers on H100"
    page.close()
