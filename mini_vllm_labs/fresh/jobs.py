"""Defines a notebook's runs as functions that a new process can call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mini_vllm import LLM, EngineConfig, Lineup, RequestOutput, SamplingParams
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.runs.traces.lines import LineRecorder
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.ablation import LineupResult, ablation_requests, run_lineup
from mini_vllm_labs.runs.workloads.small_workload import Run, policy_of
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


@dataclass(frozen=True)
class WorkloadRun:
    """A run: its recording, the output tokens of each request, and the reason if it stalled.

    `recorded` is empty, or states that this is a recorded run of the reference.
    """

    recording: Recording
    token_ids: Mapping[str, list[int]]
    stalled: str = ""
    recorded: str = ""


@dataclass(frozen=True)
class VllmRun(WorkloadRun):
    """A run in a complete vLLM, with each request's text."""

    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatRun:
    """A run of chats: its recording, the output for each question, and the text of each token id in it.

    `recorded` is empty, or states that this is a recorded run of the reference.
    """

    recording: Recording
    outputs: Mapping[str, RequestOutput]
    texts: Mapping[int, str]
    recorded: str = ""

    @property
    def token_ids(self) -> dict[str, list[int]]:
        return {question: output.outputs[0].token_ids for question, output in self.outputs.items()}


def play_workload(
    arrivals: Sequence[TimedRequest], config: EngineConfig, lineup: Lineup, policy: str | None = None
) -> WorkloadRun:
    """Run a workload on the fake model, optionally with a scheduling policy.

    Raises `ValueError` for an unknown policy, or if the config cannot serve the workload.
    """
    return played(Run(arrivals, config, lineup, policy_of(policy, arrivals)), arrivals)


def play_with_lines(
    arrivals: Sequence[TimedRequest], config: EngineConfig, lineup: Lineup, policy: str | None = None
) -> WorkloadRun:
    """Run a workload like `play_workload`, but also record lines and decisions, which is about five times slower."""
    run = Run(arrivals, config, lineup, policy_of(policy, arrivals))
    with LineRecorder() as recorder:
        result = played(run, arrivals, recorder)
    return replace(result, recording=replace(result.recording, lines=recorder.lines(result.recording.steps)))


def played(run: Run, arrivals: Sequence[TimedRequest], recorder: LineRecorder | None = None) -> WorkloadRun:
    stalled = ""
    run.engine.explain_steps()
    try:
        while not run.finished:
            if recorder is not None:
                recorder.step = len(run.engine.recorder.steps)
            run.step()
    except StalledError as error:
        stalled = str(error)
    recording = replace(Recording.of(run.engine), stalled=bool(stalled))
    recording = recording.with_priorities({request.request_id: request.priority for request in arrivals})
    return WorkloadRun(recording, output_tokens(recording), stalled)


def output_tokens(recording: Recording) -> dict[str, list[int]]:
    tokens: dict[str, list[int]] = {}
    for record in recording.steps:
        for request_id, token_ids in record["output"]:
            tokens.setdefault(request_id, []).extend(token_ids)
    return tokens


def chat(
    questions: Sequence[str], config: EngineConfig, params: SamplingParams | Sequence[SamplingParams], lineup: Lineup
) -> ChatRun:
    """Answer all questions in one batch, with the embedded model if phase 6 is present, and otherwise the fake
    model."""
    llm = LLM(config=config, lineup=lineup, record=True)
    llm.engine.explain_steps()
    outputs = llm.chat([[{"role": "user", "content": question}] for question in questions], params)
    titles = {output.request_id: question for output, question in zip(outputs, questions, strict=True)}
    token_ids = {i for output in outputs for i in (*output.prompt_token_ids, *output.outputs[0].token_ids)}
    texts = {token_id: llm.engine.tokenizer.decode([token_id]) for token_id in token_ids}
    return ChatRun(Recording.of(llm, titles), dict(zip(questions, outputs, strict=True)), texts)


def run_ablation(lineups: Sequence[Lineup]) -> list[LineupResult]:
    return [run_lineup(lineup, ablation_requests()) for lineup in lineups]
