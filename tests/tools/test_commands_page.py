"""The page of commands matches the current `--help`."""

from mini_vllm_labs.upkeep.commands_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m mini_vllm_labs.upkeep.commands_page makes it"
