"""A run with its answers and the decisions of every step, live or from a file in `labs/observed/`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from course.starter_status import written_phases
from course.traces.recording import Recording
from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES, Lineup, lineup_from_env
from mini_vllm.config import EngineConfig
from mini_vllm.core.step_record import StepRecord
from mini_vllm.llm import LLM
from mini_vllm.sampling_params import SamplingParams

RECORDED = CHECKOUT / "labs" / "observed" / "tour.jsonl"
RECORDED_MARK = "Recorded with the reference. Yours appears here when all six phases are written."


@dataclass(frozen=True)
class Answer:
    """A request: its question, its output, and its counters."""

    request_id: str
    question: str
    text: str
    num_output_tokens: int
    num_preemptions: int
    num_cached_tokens: int


@dataclass(frozen=True)
class RecordedRun:
    """Answers in the order of the questions, and the record of each step.

    `recorded` is empty, or says that the run was read from a file.
    """

    token_budget: int
    answers: list[Answer]
    steps: list[StepRecord]
    recorded: str = ""

    @property
    def recording(self) -> Recording:
        """The run as a recording, with the questions as the titles of the requests."""
        bare = Recording.from_steps(self.steps, self.token_budget)
        titles = {answer.request_id: answer.question for answer in self.answers}
        return replace(bare, info=replace(bare.info, titles=bare.info.titles | titles))


def lineup_to_record() -> Lineup | None:
    """Return the lineup of `LAB_IMPL` or its default; None if one of its starters is not written."""
    lineup = lineup_from_env()
    yours = {phase for phase in range(1, len(PHASE_NAMES) + 1) if lineup[phase] == "starter"}
    return lineup if yours <= set(written_phases()) else None


def record_answers(llm: LLM, questions: Sequence[str], params: SamplingParams) -> RecordedRun:
    """Submit all questions at once. Raises `ValueError` if the `LLM` was built without `record=True`."""
    recorder = llm.engine.recorder
    first = len(recorder.steps)
    outputs = llm.chat([[{"role": "user", "content": question}] for question in questions], params)
    answers = [
        Answer(
            output.request_id,
            question,
            output.outputs[0].text,
            output.metrics.num_output_tokens,
            output.metrics.num_preemptions,
            output.metrics.num_cached_tokens,
        )
        for question, output in zip(questions, outputs, strict=True)
    ]
    return RecordedRun(llm.engine.scheduler.max_num_batched_tokens, answers, recorder.steps[first:])


def record_chats(questions: Sequence[str], config: EngineConfig, params: SamplingParams, lineup: Lineup) -> RecordedRun:
    """Submit all questions at once to the embedded model in a new engine."""
    return record_answers(LLM(config=config, lineup=lineup, record=True), questions, params)


def write_run(run: RecordedRun, path: Path = RECORDED) -> None:
    """Write a run as a trace: a line with budget and answers, then one step per line."""
    head = {"token_budget": run.token_budget, "answers": [asdict(answer) for answer in run.answers]}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *run.steps)), encoding="utf-8")


def recorded_run(path: Path = RECORDED) -> RecordedRun:
    """Return the run in a file of `write_run`, by default that of `notebooks/00_tour.ipynb`."""
    head, *steps = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return RecordedRun(head["token_budget"], [Answer(**answer) for answer in head["answers"]], steps, RECORDED_MARK)
