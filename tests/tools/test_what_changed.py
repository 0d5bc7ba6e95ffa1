"""`docs/what-a-year-changed.md` is what its command writes."""

from mini_vllm_labs.upkeep.what_changed import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m mini_vllm_labs.upkeep.what_changed"
