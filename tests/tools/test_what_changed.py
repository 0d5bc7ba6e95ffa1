"""`docs/what-a-year-changed.md` and the boxes in the handouts match what their command writes."""

import pytest

from mini_vllm.release_rules import rules
from mini_vllm_labs.upkeep.what_changed import BOX, HANDOUTS, PAGE, handout, page, with_boxes

AGAIN = "write it again: python -m mini_vllm_labs.upkeep.what_changed"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), AGAIN


def test_a_handout_teaches_each_rule() -> None:
    assert set(HANDOUTS) == {rule.name for rule in rules()}


@pytest.mark.parametrize("phase", sorted(set(HANDOUTS.values())))
def test_a_handout_has_a_box_for_each_rule_that_changed(phase: int) -> None:
    text = handout(phase).read_text(encoding="utf-8")
    assert {found[1] for found in BOX.finditer(text)} == {name for name, one in HANDOUTS.items() if one == phase}, AGAIN
    assert text == with_boxes(text, phase), AGAIN
    assert with_boxes(text.replace("Since 0.", "Since 9."), phase) == text
