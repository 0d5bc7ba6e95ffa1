"""Vivas of fair alternatives: valid, repeatable, the same in the judge's worker, and hard to guess."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from mini_vllm import EngineConfig
from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.needed_files import WHOLE_ENGINE
from mini_vllm_labs.classroom.judge.question import packed
from mini_vllm_labs.classroom.judge.worker import SubmissionDir, Workers
from mini_vllm_labs.classroom.worker.scenario import EngineScenario, ScenarioRequest
from mini_vllm_labs.notebook import Notice, Predictions
from mini_vllm_labs.notebook.viva import viva_deck
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload
from mini_vllm_labs.viva.changes import deletions, swaps
from mini_vllm_labs.viva.files import Files, read_files
from mini_vllm_labs.viva.make_sheet import drawn as drawn_from
from mini_vllm_labs.viva.make_sheet import make_sheet
from mini_vllm_labs.viva.play import plain
from mini_vllm_labs.viva.questions import KINDS, Facts, swapped_traces
from mini_vllm_labs.viva.runs import Played, first_change
from mini_vllm_labs.viva.sheet import Sheet, VivaQuestion
from tests.cli.conftest import Commands
from tests.grading.checkout import solution
from tests.viva.trial import MOST, best_guess, best_guesses, facts_of, hits_from_other_runs, num_guessable, sheets

FOUR = {f"phase{phase}.py": solution(phase) for phase in range(2, 6)}
REFERENCE = Files({phase: solution(phase) for phase in range(1, 6)})


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, Sheet]]:
    return list(sheets(3, seed=20))


def test_fair_alternatives_have_different_valid_sheets(drawn: list[tuple[str, Sheet]]) -> None:
    texts = [[question.text for question in sheet.questions] for _, sheet in drawn]
    assert all(len(set(one)) == 8 for one in texts)
    assert len({tuple(one) for one in texts}) == len(drawn)
    for question in (question for _, sheet in drawn for question in sheet.questions):
        if question.options:
            assert 1 <= question.right <= len(question.options) == len(set(question.options)) >= 3
    assert len(best_guesses([one for _, sheet in drawn for one in sheet.questions])) >= len(KINDS) - 1


def test_the_same_files_and_seed_give_the_same_sheet() -> None:
    found = make_sheet(REFERENCE, 5)
    assert found.as_json() == make_sheet(REFERENCE, 5).as_json()
    assert Sheet.from_json(found.as_json()).is_about_the_same(found)
    other = replace(found.questions[0], right=found.questions[0].right + 1)
    assert not replace(found, questions=[other, *found.questions[1:]]).is_about_the_same(found)


@pytest.fixture(scope="module")
def facts() -> Facts:
    return facts_of(REFERENCE, 5)


def in_judge(jail: Jail, files: Files, config: EngineConfig) -> Played:
    """Run the files of seed 5 the way the judge runs all phases together."""
    new = make_workload(5, 8)
    arrivals = [
        ScenarioRequest(int(one.arrival_time), one.request_id, list(one.prompt_token_ids), one.max_tokens, one.priority)
        for one in new
    ]
    scenario = EngineScenario(config, tuple(arrivals))
    starters = {phase: text.encode() for phase, text in files.texts.items()}
    with SubmissionDir(starters) as folder, Workers(folder, jail) as workers:
        worker = workers.fresh(WHOLE_ENGINE, until=float("inf"))
        for phase in files.texts:
            worker.load(phase)
        steps = worker.ask({"driver": "play_together", "arguments": packed((scenario, files.lineup))})
    return Played(steps[:-1], {})


def test_the_judges_worker_computes_the_same_runs(facts: Facts, jail: Jail) -> None:
    assert in_judge(jail, facts.files, SMALL_POOL).rows == facts.base.rows
    name, _, value, run = facts.settings[0]
    assert name == "max_num_seqs"
    assert in_judge(jail, facts.files, replace(SMALL_POOL, max_num_seqs=value)).rows == run.rows
    change, run = next((change, run) for change, run in facts.deleted if first_change(facts.base, run))
    changed = in_judge(
        jail, facts.files.with_text(change.phase, change.text), replace(SMALL_POOL, check_invariants=False)
    )
    assert first_change(facts.base, changed) == first_change(facts.base, run)


def test_every_answer_is_found_in_the_run_that_the_question_names(facts: Facts) -> None:
    asked = [question for kind in KINDS for question in kind(facts, Random(0))]
    texts: dict[str, set[object]] = {}
    for question in asked:
        right = question.options[question.right - 1] if question.options else question.right
        texts.setdefault(question.text, set()).add(right)
    assert all(len(answers) == 1 for answers in texts.values()), "a question has two right answers"
    [first] = [one for one in asked if one.kind == "first run" and "`memory_sufficed = False`" in one.text]
    assert "preempts" in facts.base.rows[first.right]
    assert not any("preempts" in row for row in facts.base.rows[: first.right])


def test_a_frequent_answer_is_not_a_good_guess() -> None:
    often = [VivaQuestion("value", f"question {number}", 1, "1") for number in range(96)]
    candidates = [*often, *(VivaQuestion("value", f"rare {right}", right, str(right)) for right in (2, 3, 4))]
    firsts = [drawn_from([candidates], Random(seed))[0].right for seed in range(300)]
    assert firsts.count(1) < 0.4 * len(firsts)
    assert not drawn_from([often], Random(0)), "all have the same answer"


def test_the_trial_counts_guessable_questions() -> None:
    same = [VivaQuestion("value", "How many?", 1, "1")] * 24
    assert (num_guessable(same), num_guessable([replace(one, right=n) for n, one in enumerate(same)])) == (24, 0)
    options = (("x",) * n + ("long",) + ("x",) * (3 - n) for n in range(4))
    assert best_guess([VivaQuestion("stop", "Which?", n, "", (), one) for n, one in enumerate(options, 1)])[2] == 1


def test_nobody_finds_a_trace_by_comparing_the_options(facts: Facts) -> None:
    # When options were drawn independently, guessing the most common first step was right for 55% of the questions, and
    # guessing the shortest option for 45%.
    questions = [one for seed in range(10) for one in swapped_traces(facts, Random(seed))]
    assert len(questions) > 50
    assert num_guessable(questions) == 0, best_guess(questions)


def test_other_runs_of_the_same_code_do_not_tell_the_answers(facts: Facts) -> None:
    found = hits_from_other_runs({5: facts, 6: facts_of(REFERENCE, 6)})
    assert len(found) == len(KINDS) + 1
    assert found["all"] < 0.25
    assert max(found.values()) <= MOST, found


@pytest.mark.parametrize(
    ("change", "text", "old", "new"),
    [
        (swaps, "def f(a, b):\n    return a < b\n", "a < b", "a <= b"),
        (swaps, "x = max(1, 2)\n", "max", "min"),
        (swaps, "x = a is not b\n", "is not", "is"),
        (swaps, "x = (a) and (b)\n", "and", "or"),
        (deletions, "def f():\n    x = 1\n    return x\n", "x = 1", "pass"),
    ],
)
def test_a_change_is_one_place_of_the_file(change: Callable[..., list[object]], text: str, old: str, new: str) -> None:
    [found] = change(1, text, range(1, 5))
    assert vars(found)["text"] == text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "contains no starters for phases 1 to 5"),
        ({"phase2.py": solution(2)}, "needs phase 1 for its run, but Phase 1 is not written"),
        ({"phase1.py": 'def f():\n    raise NotImplementedError("Phase 1, task 1: clamp")\n'}, "clamp is not written"),
        ({"phase1.py": "def f(:\n"}, "phase1.py cannot be read"),
        ({"phase1.py": "import solutions\n"}, "your answer must be in your own file"),
        ({"phase1.py": "clamp = schedule_step = update_from_output = None\n"}, "a run without errors, but in step 0"),
        (
            {**FOUR, "phase1.py": solution(1).replace("< max_num_seqs:", "< 2:")},
            "a run that obeys the rules, but step",
        ),
        ({"phase1.py": f"import os\n{solution(1)}\nos._exit(3)\n"}, "the process of the run ended"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(
    mini_vllm: Commands, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    shown = mini_vllm("viva", tmp_path, "--seed", 3, exit_code=2).output
    assert words in " ".join(shown.split())


def test_the_command_writes_a_sheet_that_can_be_checked(mini_vllm: Commands, tmp_path: Path) -> None:
    for phase, text in REFERENCE.texts.items():
        (tmp_path / f"alice_phase{phase}.py").write_text(text, encoding="utf-8")
    path = tmp_path / "alice.json"
    mini_vllm("viva", tmp_path, "--seed", 5, "--sheet", path, "--blank")
    right = [question.right for question in Sheet.from_json(path.read_text(encoding="utf-8")).questions]
    typed = "\n".join(["nonsense", *map(str, right[:7]), "", ""])
    mini_vllm.monkeypatch.setattr("mini_vllm_labs.cli.viva.typed_lines", lambda prompt: iter(typed.split("\n")))
    shown = mini_vllm("viva", tmp_path, "--seed", 5, "--sheet", path, "--practice").output
    assert "got 'nonsense'" in shown
    assert "7 of 8 right, seed 5." in shown
    assert json.loads(path.read_text(encoding="utf-8"))["points"] == 7
    assert "Given: none" in path.with_suffix(".md").read_text(encoding="utf-8")
    assert "7 of 8 are right" in mini_vllm("viva", tmp_path, "--check", path).output
    path.write_text(path.read_text(encoding="utf-8").replace('"right": ', '"right": 1'), encoding="utf-8")
    assert "Another sheet" in mini_vllm("viva", tmp_path, "--check", path, exit_code=1).output


def test_a_run_too_short_has_too_few_questions() -> None:
    alone = Files({1: REFERENCE.texts[1]})
    with pytest.raises(ValueError, match=r"a run of \d+ steps is too short: it yields 8 questions of 1 kinds"):
        make_sheet(alone, 7, requests=1)


def test_arrays_and_numbers_of_numpy_are_those_of_python() -> None:
    assert json.loads(json.dumps([np.arange(3), np.int64(4)], default=plain)) == [[0, 1, 2], 4]


def test_only_written_phases_that_run_together_count(tmp_path: Path) -> None:
    for phase in (1, 4):
        folder = tmp_path / "labs" / {1: "phase1_scheduler_step", 4: "phase4_prefix_cache"}[phase]
        folder.mkdir(parents=True)
        (folder / "starter.py").write_text(solution(phase), encoding="utf-8")
    assert list(read_files(tmp_path).texts) == [1], "phase 4 needs phase 2"


def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    # in the form in which Windows Notepad may save it
    content = b"\xef\xbb\xbf" + solution(1).replace("\n", "\r\n").encode()
    (tmp_path / "phase1.py").write_bytes(content)
    assert read_files(tmp_path).digests == {"1": hashlib.sha256(content).hexdigest()}


def test_a_notebook_asks_the_same_questions_as_cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guess = Predictions("viva", folder=tmp_path)
    assert "phase 1" in str(viva_deck(guess, 5)), "the starters of this checkout are not written"
    monkeypatch.setattr("mini_vllm_labs.notebook.viva.read_files", lambda folder: REFERENCE)
    deck, sheet = viva_deck(guess, 5), make_sheet(REFERENCE, 5)
    assert not isinstance(deck, Notice)
    for card, question in zip(deck.cards, sheet.questions, strict=True):
        assert question.text in card["claim"]
        assert card["truth"] == (str(question.right) if question.options else question.right)
