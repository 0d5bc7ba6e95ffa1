"""The table of topics: every link leads somewhere, and every command would run."""

import re
from pathlib import Path

import pytest

from tests.course.test_community_files import anchors
from tests.edition.released_text import Command
from tests.edition.test_released_text import problem_with

PAGE = Path(__file__).parents[2] / "docs/topics.md"
ROWS = re.findall(r"^\| (.+?) \| (\[.+?) \| `(.+?)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)


def test_the_table_has_each_topic_once_and_every_document_is_in_the_index() -> None:
    assert len(ROWS) == len({topic for topic, *_ in ROWS}) >= 133
    index = (PAGE.parent / "README.md").read_text("utf-8")
    assert {path.name for path in PAGE.parent.glob("*.md")} - {"README.md"} == set(
        re.findall(r"\]\(([\w-]+\.md)\)", index)
    )


@pytest.mark.parametrize(("topic", "where", "command"), ROWS)
def test_a_topics_links_lead_somewhere_and_its_command_would_run(topic: str, where: str, command: str) -> None:
    for link in re.findall(r"\]\((.+?)\)", where):
        path, _, anchor = link.partition("#")
        assert (PAGE.parent / path).is_file(), link
        assert not anchor or anchor in anchors(PAGE.parent / path), link
    words = command.split()
    if words[0] == "pytest":
        _, phase, task = re.split(r"task|_", words[-1])
        assert list((PAGE.parents[1] / "labs").glob(f"phase{phase}_*/test_task{phase}_{task}_*.py")), command
    else:
        assert problem_with(Command("topics", {}, words)) is None, command
