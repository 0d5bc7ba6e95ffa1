"""A broken engine is reported in one sentence with the scenario and step; then the next scenario is run."""

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from mini_vllm_labs.cli.main import app
from mini_vllm_labs.conformance.suite import Options
from tests.conformance.asked import NAMED, recorded, suite
from tests.conformance.recorded_engine import FAULTY, STEP

TWO = Options(files=[NAMED], names=[FAULTY, "slot_cap"], timeout=3)
BROKEN = tomllib.loads(Path(__file__).with_name("broken_answers.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_engine_is_a_sentence_and_the_next_scenario_is_played(fault: str) -> None:
    code, said = suite(recorded(fault), TWO)
    assert code == 1
    # noticed only when the next message is sent
    said = said.replace("in step 4", "in step 3") if fault == "two lines" else said
    assert BROKEN[fault] in said
    assert f", in step {STEP} of {FAULTY}" in said
    assert "1 of 2 scenarios asked" in said


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ('{"scheduled": [{"id": "X", "n": 1}]}', "who was scheduled differs first\n  expected  "),
        ('{"free_after_schedule": -1}', "the field 'free_after_schedule' differs first\n  expected  "),
    ],
)
def test_a_wrong_answer_is_shown_beside_the_right_one(fault: str, expected: str) -> None:
    line = ["conformance", "--traces", str(NAMED), "--name", FAULTY, "--", *recorded(fault)]
    shown = CliRunner().invoke(app, line)
    assert shown.exit_code == 1
    for text in (f"step {STEP} of 6: {expected}", "it shows  Three 8-", "as recorded", "differ first in: "):
        assert text in shown.output


def test_what_an_engine_does_not_support_is_skipped() -> None:
    code, said = suite(recorded('{"unsupported": "step 3"}'), TWO)
    assert code == 0
    assert "skipped, 1: the engine says that it does not support step 3" in said


def test_an_engine_that_always_breaks_does_not_take_forever() -> None:
    code, said = suite(recorded("dies always"), Options(files=[NAMED], kinds=["plain"], jobs=1))
    assert code == 1
    assert "0 of 44 scenarios asked" in said


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        (["./no-such-engine"], TWO, "cannot start './no-such-engine': No such file"),
        ([], TWO, "put its command after --"),
        (recorded('hello {"protocol": 2}'), TWO, "the engine speaks protocol 2; this suite speaks 1"),
        (
            recorded('hello {"has": ["telepathy"]}'),
            TWO,
            "unknown capability 'telepathy': choose from plain, gates, preemption",
        ),
        (recorded('hello {"has": "plain"}'), TWO, "'has' in the greeting must be a list of strings, got 'plain'"),
        (recorded('hello {"follows": "0.1"}'), TWO, "follows '0.1', but the releases known here are 0.13.0, 0.33.0"),
        (["true"], TWO, "no greeting: the engine exited before it answered 'hello', with exit code 0"),
        (recorded(), Options(releases=["0.14.0"]), "unknown release '0.14.0': take 0.13.0, 0.33.0"),
        (recorded(), Options(kinds=["base"]), "unknown kind 'base': take plain, spec, async"),
        (
            recorded(),
            Options(files=[NAMED], names=["x"]),
            "'x' is not one of the 64 chosen scenarios, which include budget_cap",
        ),
        (
            recorded(),
            Options(files=[NAMED], kinds=["lora"]),
            "release 0.13.0 or 0.33.0 has no scenarios of kind lora",
        ),
        (recorded(), Options(files=[Path("no.jsonl")]), "no.jsonl cannot be read: No such file"),
        (recorded(), Options(timeout=0), "--timeout must be greater than 0 and at most 3600 seconds, got 0"),
        (recorded(), Options(jobs=0), "--jobs must be from 1 to 64, got 0"),
    ],
)
def test_a_bad_option_or_greeting_is_a_sentence(command: list[str], options: Options, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        suite(command, options)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda line: line.pop("requests"), "'requests' is missing"),
        (
            lambda line: line["config"].update(version="9.9"),
            "config.version is '9.9', but the known releases are 0.13",
        ),
        (lambda line: line["trace"]["steps"][2].pop("evicted"), "'evicted' is missing"),
        (lambda line: line["events"].append({"step": 1, "add": "Z"}), "adds an unknown request"),
        (lambda line: line.update(kind="odd"), "kind is 'odd', but the known kinds are named, base, spec"),
        (lambda line: line.update(trace=[]), "list indices"),
    ],
)
def test_a_bad_trace_is_a_sentence(tmp_path: Path, change: object, expected: str) -> None:
    line = json.loads(NAMED.read_text().partition("\n")[0])
    assert callable(change)
    change(line)
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps(line))
    with pytest.raises(ValueError, match=rf"bad\.jsonl, line 1: not a valid trace.*{re.escape(expected)}"):
        suite(recorded(), Options(files=[file]))


def test_other_peoples_ci_reads_the_outcome(tmp_path: Path) -> None:
    junit, badge = tmp_path / "junit.xml", tmp_path / "badge.json"
    suite(recorded("dies"), Options(files=[NAMED], names=TWO.names, junit=junit, badge=badge))
    tree = ElementTree.parse(junit).getroot()
    assert (tree.get("tests"), tree.get("errors"), tree.get("failures")) == ("2", "1", "0")
    error = tree.find("testcase[@name='budget_cap']/error")
    assert error is not None
    assert "with exit code 3, in step 3 of budget_cap" in str(error.get("message"))
    assert json.loads(badge.read_text()) == {
        "schemaVersion": 1,
        "label": "vLLM 0.13.0 scheduler",
        "message": "1 of 2 scenarios",
        "color": "orange",
    }
