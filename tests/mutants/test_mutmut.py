"""mutmut's mutants are made, judged and held against the reviewed list. `python -m tests.mutants --mutmut` runs all."""

import os
from importlib.util import find_spec

import pytest

from tests.mutants import made_by_mutmut as maker
from tests.mutants import mutmut_table
from tests.mutants.catalog import PHASES, Subject, reference
from tests.mutants.diffs import DiffError, read_diffs
from tests.mutants.harness import harness
from tests.mutants.mutmut_table import Tally, read_reviewed, report, reviewed, tally, try_mutmut
from tests.mutants.verdict import Verdict

needs_mutmut = pytest.mark.skipif(find_spec("mutmut") is None, reason="mutmut is not installed")

ORIGINAL = "a\nb\nc\nb\n"
KNOWN = "# equivalent: the value is never read\n-a\n+A\n"
PASSED, FAILED = Verdict("passed", 3), Verdict("failed", 2, ["test_a"])


def mutant(text: str) -> Subject:
    return Subject(1, "mutant", "f", text)


@pytest.mark.parametrize("phase", PHASES)
def test_every_reviewed_survivor_applies_to_the_solution_and_has_a_reason(phase: int) -> None:
    reasons = reviewed(phase)
    kinds = {reason.partition(":")[0] for reason in reasons.values()}
    assert kinds <= {"equivalent", "wording", "out of reach", "only on a GPU"}
    for text in reasons:
        compile(text, f"phase{phase}", "exec")


@needs_mutmut
@pytest.mark.parametrize("phase", [3, 4, 5])
def test_mutmut_makes_every_reviewed_survivor_once(phase: int) -> None:
    made = maker.made_by_mutmut(phase)
    texts = [subject.text for subject in made]
    assert len(texts) > 50
    assert len(set(texts)) == len(texts)
    assert reference(phase).text not in texts
    assert set(reviewed(phase)) <= set(texts)


@needs_mutmut
def test_mutmut_changes_properties_too() -> None:
    mutations = list(
        maker._mutations("class Pool:\n    @property\n    def usage(self) -> float:\n        return 1 - 0.5\n")
    )
    assert {function for function, _ in mutations} == {"usage"}
    assert any("return 1 + 0.5" in text for _, text in mutations)


@needs_mutmut
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the command needs os.fork")
def test_a_survivor_of_the_real_tests_is_fine_on_the_list_and_an_error_off_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with harness(1) as workers:
        assert try_mutmut(workers, [4], only='+content = array("Q"')
        assert "mutants: 0 caught, 1 survive" in capsys.readouterr().out
        monkeypatch.setattr(mutmut_table, "reviewed", lambda phase: {})
        assert not try_mutmut(workers, [4], only='+content = array("Q"')
    assert '+    content = array("Q", token_ids).tobytes()' in capsys.readouterr().out


def test_without_mutmut_the_message_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "find_spec", lambda name: None)
    with pytest.raises(maker.NoMutmutError, match=r"pip install -c constraints\.txt"):
        maker.made_by_mutmut(1)


def test_a_survivor_must_be_on_the_list() -> None:
    made = [mutant("A\nb\nc\nb\n"), mutant("a\nb\nC\nb\n"), mutant("a\nb\nc\nB\n")]
    reasons = read_reviewed(KNOWN, ORIGINAL)
    well = tally(made, zip(made, [PASSED, FAILED, Verdict("endless")], strict=True), reasons)
    assert (well.num_made, well.num_caught, well.num_reviewed, well.is_well) == (3, 2, 1, True)
    ill = tally(made, zip(made, [PASSED, PASSED, Verdict("not run")], strict=True), reasons)
    assert [subject for subject, _ in ill.unreviewed] == made[1:]
    assert not ill.is_well


def test_an_entry_is_stale_if_a_test_catches_it_or_mutmut_does_not_make_it() -> None:
    reasons = read_reviewed(KNOWN, ORIGINAL)
    listed, other = mutant("A\nb\nc\nb\n"), mutant("a\nb\nC\nb\n")
    caught = tally([listed], [(listed, FAILED)], reasons)
    assert caught.stale == ["'equivalent: the value is never read': test_a"]
    gone = tally([other], [(other, FAILED)], reasons)
    assert gone.stale == ["'equivalent: the value is never read': mutmut makes no such mutant"]
    assert not caught.is_well
    assert not gone.is_well


@pytest.mark.parametrize(
    ("diffs", "complaint"), [("# moved\n-x\n+y\n", "0 times"), (KNOWN + KNOWN, "the same change is listed above")]
)
def test_an_entry_that_does_not_fit_or_is_listed_twice_is_an_error(diffs: str, complaint: str) -> None:
    with pytest.raises(DiffError, match=complaint):
        read_reviewed(diffs, ORIGINAL)


def test_a_survivor_is_shown_as_it_would_stand_on_the_list() -> None:
    shown = maker.as_diff(ORIGINAL, "a\nb\nc\nB\n", "why")
    assert shown == "# why\n c\n-b\n+B\n"
    assert read_diffs(shown)[0].apply(ORIGINAL) == "a\nb\nc\nB\n"


def test_the_table_has_a_row_per_phase() -> None:
    tallies = {2: Tally(10, 7, 2, [(mutant(ORIGINAL), PASSED)]), 3: Tally(5, 5, stale=["old"])}
    assert [line.split() for line in report(tallies).splitlines()[-2:]] == [
        ["2", "10", "7", "2", "1", "0"],
        ["3", "5", "5", "0", "0", "1"],
    ]
