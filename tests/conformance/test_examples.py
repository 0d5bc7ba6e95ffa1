"""The example engines make the same decisions as vLLM 0.13.0, and the suite detects each of twelve wrong rules."""

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.release_rules import RELEASES, SETTINGS
from mini_vllm_labs.conformance.scenarios import FILES, OPTIONS
from mini_vllm_labs.conformance.suite import Options
from tests.conformance.asked import GATES33, NAMED, NAMED33, NO_FAULT, RANDOM, recorded, suite
from tests.tab.node_model import node

EXAMPLES = CHECKOUT / "docs" / "conformance"
JAVASCRIPT = EXAMPLES / "engine.mjs"
WRONG = tomllib.loads(Path(__file__).with_name("wrong_rules.toml").read_text(encoding="utf-8"))


def test_the_suite_has_the_releases_of_the_engine_and_the_defaults_of_their_settings() -> None:
    """The suite has its own copies of the releases and defaults, because it runs without the engine."""
    assert tuple(FILES) == RELEASES
    assert {name: SETTINGS[name].default for name in OPTIONS} == OPTIONS


def test_the_javascript_example_reaches_all_of_plain() -> None:
    code, said = suite([node(), str(JAVASCRIPT)], Options(kinds=["plain"]))
    assert code == 0, said
    assert "344 of 344 scenarios asked" in said
    assert len(JAVASCRIPT.read_text().splitlines()) <= 300


@pytest.mark.parametrize(
    ("lineup", "options", "expected"),
    [
        ([], Options(files=[NAMED, NAMED33]), "180 of 180 scenarios asked"),
        ([], Options(files=[GATES33], kinds=["gates"]), "15 of 15 scenarios asked"),
        (
            ["solution:1-5"],
            Options(files=[NAMED]),
            "skipped, 20: they need what is not declared: async (11), spec (10)",
        ),
    ],
)
def test_the_python_example_is_asked_for_what_it_declares(lineup: list[str], options: Options, expected: str) -> None:
    example = EXAMPLES / "engine.py"
    code, said = suite([sys.executable, str(example), *lineup], replace(options, timeout=30))
    assert code == 0, said
    assert expected in said
    assert len(example.read_text().splitlines()) <= 120


def test_the_suite_plays_every_kind_of_both_releases() -> None:
    files = [NAMED, NAMED33]
    code, said = suite(recorded(NO_FAULT, *files), Options(files=files))
    assert code == 0, said
    assert "187 of 187 scenarios asked" in said


@pytest.mark.parametrize("rule", WRONG)
def test_each_wrong_rule_is_found(tmp_path: Path, rule: str) -> None:
    right, wrong, expected = WRONG[rule].values()
    source = JAVASCRIPT.read_text()
    assert source.count(right) == 1, rule
    engine = tmp_path / "engine.mjs"
    engine.write_text(source.replace(right, wrong))
    options = Options(files=[NAMED], kinds=["plain"])
    if rule.startswith("chunking off"):  # no named scenario depends on the order of the two tests
        options = Options(files=[RANDOM], names=["random-base-030", "random-base-045"])
    code, said = suite([node(), str(engine)], options)
    assert code == 1, said
    assert expected in said
