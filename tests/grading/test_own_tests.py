"""Learners' own tests: locks that correct answers open, the grade, and an explanation for each ungraded file."""

import json
import lzma
import os
from pathlib import Path
from types import ModuleType

import pytest

from mini_vllm_labs.grading.known_mistakes import inner_key, keys_of, read, unlocked
from mini_vllm_labs.grading.own_tests.grade import TestsGrade, graded, read_points
from mini_vllm_labs.runs.starter_status import starter_path
from tests.cli.conftest import Commands
from tests.mutants.catalog import PHASES, alternatives, mutants, reference
from tests.mutants.known import MOST_PER_RULE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each mistake runs in a forked process")
PHASE = 14
OWN = """
def test_threshold(phase14):
    print("hello")
    assert phase14.threshold_of_step(4, 2, 100, True) == 50
    assert phase14.threshold_of_step(4, 1, 100, False) == 0


def test_freed(phase14):
    assert phase14.order_freed([1, 2, 3], {2}) == ([1, 3], [2])


def test_names(phase14):
    assert phase14.threshold_of_step.__code__.co_names == NAMES
"""
SECOND_TIME = """
from pathlib import Path

SEEN = Path(__file__).with_name("seen")

def test_x():
    assert not SEEN.exists()
    SEEN.touch()
"""


def module_of(text: str) -> ModuleType:
    module = ModuleType("implementation")
    exec(text, vars(module))
    return module


@pytest.mark.parametrize("phase", PHASES)
def test_right_answers_open_what_the_catalogue_holds_now(phase: int) -> None:
    known = unlocked(phase, inner_key(phase, keys_of(phase, module_of(reference(phase).text))))
    again = f"python -m tests.mutants.known --phase {phase}"
    assert known.reference == reference(phase).text, again
    assert {text for _, text in known.mistakes} <= {one.text for one in mutants(phase)}, again
    fair = [(one.name, one.text) for one in alternatives(phase)]
    assert known.fair == fair[: len(known.fair)], again
    rules = [rule for rule, _ in known.mistakes]
    assert len(set(rules)) >= 8
    assert len(known.fair) >= 5
    assert max(map(rules.count, rules)) <= MOST_PER_RULE
    assert not set(rules) & {one.name for one in mutants(phase)}


def test_wrong_answers_open_nothing_and_the_file_shows_nothing() -> None:
    untouched = starter_path(3).read_text(encoding="utf-8")
    wrong = next(one for one in mutants(3) if one.name == "queue serves priority 0 last")
    assert [inner_key(3, keys_of(3, module_of(text))) for text in (untouched, wrong.text)] == [b"", b""]
    with pytest.raises(ValueError, match="can be opened once your phase passes: run mini-vllm grade --phase 3"):
        unlocked(3, b"")
    with pytest.raises(lzma.LZMAError):
        lzma.decompress(read(3)[1])


@pytest.mark.parametrize("place", range(2))
def test_a_fair_way_to_write_a_phase_opens_it_too(place: int) -> None:
    assert inner_key(1, keys_of(1, module_of(alternatives(1)[place].text)))


@pytest.mark.parametrize(
    ("rules", "refused", "points"),
    [((10, 10), 0, 10), ((5, 10), 0, 5), ((10, 10), 2, 5), ((0, 10), 0, 0), ((10, 10), 4, 0)],
)
def test_points_need_caught_mistakes_and_accepted_ways(rules: tuple[int, int], refused: int, points: int) -> None:
    fair = {f"way {number}": "test_x: no" * (number < refused) for number in range(4)}
    assert TestsGrade(3, 1, {"a rule": rules}, fair).points == points


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "has no tests"),
        ("def test_x(phase14):\n    assert 1 == 2\n", "test_x fails: assert 1 == 2"),
        ("import time\ndef test_x():\n    while True: time.sleep(0.1)\n", "did not finish within 4 s"),
        ("import os\ndef test_x():\n    os._exit(0)\n", "exit Python"),
        ("import sys\nsys.exit(0)\n", "exit Python"),
        ("import pytest\ndef test_x():\n    pytest.skip()\n", "none of your tests passes"),
        (
            SECOND_TIME,
            "test_x fails the second time",
        ),
        ("from labs.phase3_preemption.starter import preempt\n", "line 1 imports labs.phase3_preemption"),
        ("def test_x():\n    import inspect\n", "line 2 imports inspect"),
        ("import solutions\n", "line 1 imports solutions"),
        ("def test_x(:\n", "SyntaxError"),
        ("PK\x03\x04", "it is a zip archive"),
    ],
)
def test_a_file_that_cannot_be_graded_gets_one_sentence(tmp_path: Path, source: str, words: str) -> None:
    path = tmp_path / "own_tests.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(ValueError, match=r"own_tests\.py: ") as raised:
        graded(path, PHASE)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_shows_rules_and_no_mistake(mini_vllm: Commands, tmp_path: Path) -> None:
    path, sheet = tmp_path / "own_tests.py", tmp_path / "ada.json"
    names = module_of(reference(PHASE).text).threshold_of_step.__code__.co_names
    path.write_text(OWN.replace("NAMES", repr(names)), encoding="utf-8")
    sheet.write_text(json.dumps({"version": 1, "own tests": {"3": {"points": 4}}}), encoding="utf-8")
    shown = mini_vllm("grade-tests", path, "--phase", PHASE, "--sheet", sheet, exit_code=1).output
    found = read_points(sheet)
    (caught, total), (accepted, fair) = found["14"]["caught"], found["14"]["accepted"]
    assert 4 <= caught < total
    assert accepted == fair - 1, "one of the right ways calls neither max nor min"
    assert found["14"]["points"] == round(10 * caught / total * accepted / fair)
    assert found["3"] == {"points": 4}
    text = " ".join(shown.split())
    shown = f"3 tests: {caught} of {total} mistakes are caught, {accepted} of {fair} right ways accepted"
    assert shown in text
    assert all(one in text for one in ("refused, although right: ", "test_names: ", "print is not shown"))
    assert "hello" not in text
    assert all(rule[:40] in text for rule in found["14"]["untested"])
    assert not [one.name for one in mutants(PHASE) if one.name in text]
