"""Questions, how their answers are stored, and what a page contains before they are answered."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import EngineConfig
from mini_vllm_labs.fresh.jobs import WorkloadRun
from mini_vllm_labs.notebook import Lab, Notice, Predictions, watch
from mini_vllm_labs.notebook.predictions import Prediction, Revealed
from mini_vllm_labs.notebook.truths import fact
from mini_vllm_labs.pictures.prediction import Question, checked_answer
from mini_vllm_labs.pictures.prediction.question import in_words
from mini_vllm_labs.pictures.prediction.widgets import Reveal
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

REQUESTS = [TimedRequest(0, name, [ord(name)] * 8, max_tokens=4) for name in "ABC"]
CONFIG = EngineConfig(max_num_seqs=4, max_num_batched_tokens=12, max_model_len=12, block_size=4, num_gpu_blocks=21)


@pytest.fixture(scope="module")
def run() -> WorkloadRun:
    played = Lab(1, "solution").play(REQUESTS, CONFIG)
    assert isinstance(played, WorkloadRun)
    return played


ASKED: dict[str, dict[str, Any]] = {
    "When does C get its first token?": {"step": "first_token C"},
    "Which run in step 1?": {"several": "scheduled 1", "of": "ABC"},
    "C waits in step 1.": {"claim": "scheduled 1 < 3"},
}


@pytest.fixture
def asked(tmp_path: Path) -> Prediction:
    return Predictions("notebook", tmp_path, {"steps": ASKED}).ask("steps")


def truths_of(revealed: Any) -> Any:
    assert isinstance(revealed, Revealed)
    return revealed.truths


@pytest.mark.parametrize(
    ("question", "value", "problem"),
    [
        (Question("How many?", "s"), "three", "but the answer must be a number"),
        (Question("How many?", "s"), True, "but the answer must be a number"),
        (Question("Which?", "s", "choice", ("A", "B")), "C", "is 'C', but the answer must be one of A, B"),
        (Question("Which?", "s", "several", ("A", "B")), [], "a list with some of A, B"),
        (Question("Which?", "s", "several", ("A", "B")), ["C"], "a list with some of A, B"),
    ],
)
def test_what_cannot_be_an_answer_is_refused(question: Question, value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checked_answer(question, value)


def test_a_question_without_a_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="has 1 options, but a multiple-choice question needs at least 2"):
        Question("Which?", "s", "choice", ("A",))


def test_answers_in_words() -> None:
    number = Question("How many?", "s", unit="tokens")
    assert [in_words(number, value) for value in (12_000, 12.0, 1.2345)] == [
        "12,000 tokens",
        "12 tokens",
        "1.23 tokens",
    ]
    assert in_words(Question("Which?", "s", "several", ("A", "B")), ["A", "B"]) == "A, B"


def test_the_true_answers_are_found_in_the_run(asked: Prediction, run: WorkloadRun) -> None:
    assert truths_of(asked.reveal(watch(run), run)) == [2, ["A", "B"], "true"]
    other = Lab(1, "solution").play(REQUESTS[:2], CONFIG)
    assert truths_of(asked.reveal(watch(other), other)) == [None, ["A", "B"], "true"], "there is no C in it"
    assert truths_of(asked.also(watch(run))) == ()


def test_a_notice_is_passed_on(asked: Prediction, run: WorkloadRun) -> None:
    notice = Notice("missing", "phase 1")
    assert asked.reveal(notice, run) is notice
    assert asked.reveal("text", notice) is notice
    assert asked.also(notice) is notice


def test_locked_answers_are_kept_beside_the_notebook(asked: Prediction, tmp_path: Path) -> None:
    widget = asked.ask()
    assert widget.answers == []
    assert list(tmp_path.iterdir()) == [], "nothing is written before an answer"
    widget.answers = [3, ["A"], "true"]
    kept = json.loads((tmp_path / "notebook.predictions.json").read_text(encoding="utf-8"))
    assert list(kept["steps"].values()) == [3, ["A"], "true"]
    again = Predictions("notebook", tmp_path, {"steps": ASKED}).ask("steps")
    assert again.ask().answers == [3, ["A"], "true"]
    assert Predictions("another", tmp_path, {"steps": ASKED}).ask("steps").answers == []
    widget.answers = []
    assert again.answers == []


def test_a_question_that_has_changed_is_open_again(asked: Prediction, tmp_path: Path) -> None:
    asked.ask().answers = [3, ["A"], "true"]
    changed = ASKED | {"A waits in step 1.": {"claim": "scheduled 1 < 3"}}
    assert Predictions("notebook", tmp_path, {"steps": changed}).ask("steps").answers == []


def test_unknown_questions_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="unknown question set 'steps'; choose from three steps, two at once"):
        Predictions("01_scheduler_step").ask("steps")


class Figures:
    few, many, share, names = 2, 40, 0.5, ["A", "B"]

    def plus(self, number: int, name: str) -> str:
        return f"{number + 1}{name}"


@pytest.mark.parametrize(
    ("line", "truth"),
    [
        ("many", 40),
        ("plus 3 B", "4B"),
        ("1:many - few + 1", 39),
        ("1.5 * 1:few / 4", 0.75),
        ("names | -1", "B"),
        ("names < 3", True),
        ("names == 1:names", True),
        ("few < many and 1:many <= 40", True),
        ("few <= many and names != 1:names", False),
        ("few ~ many", 0),
        ("few ~ 1:few", 1),
        ("many ~ few", 2),
        ("2:", 0.25),
        ("3:vllm:tokens_total", 7),
        ("3: | 0", 7),
    ],
)
def test_a_line_finds_its_fact_in_the_runs(line: str, truth: object) -> None:
    assert fact(line, [Figures(), Figures(), 0.25, {"vllm:tokens_total": 7}]) == truth


def test_the_run_with_the_most_and_any_difference_are_found() -> None:
    runs = [Figures(), Figures(), Figures()]
    assert not fact("any many", runs)
    runs[1].many = 41
    assert fact("any many", runs)
    assert fact("most many", runs) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"steps": 3}', '{"steps": {"C waits in step 1.": "maybe"}}'])
def test_a_file_that_says_nothing_is_no_answer(asked: Prediction, tmp_path: Path, content: str) -> None:
    (tmp_path / "notebook.predictions.json").write_text(content, encoding="utf-8")
    assert asked.answers == []


def test_no_page_shows_an_answer_that_is_not_behind_a_fold(asked: Prediction, run: WorkloadRun) -> None:
    truths = truths_of(asked.reveal(watch(run), run))
    widget = Reveal(asked.group, asked.questions, asked.answers, truths, {})
    page = re.sub(r"<(style|script).*?</\1>", "", widget.page(), flags=re.DOTALL)
    assert "<b>A, B</b>" in page, "where no script runs, it can be opened"
    unfolded = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert re.sub(r"<[^>]*>", "", unfolded).strip() == ""
    state = re.search(r"'([A-Za-z0-9+/=]{99,})'\)", widget.page())
    assert state is not None
    packed = json.loads(gzip.decompress(base64.b64decode(state[1])))
    assert packed["state"]["truths"] == truths, "the script knows it"
