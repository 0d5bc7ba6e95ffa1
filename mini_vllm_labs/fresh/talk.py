"""Runs chats with the embedded model on a learner's phases 1 to 5; its functions can run in new processes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mini_vllm import LLM, EngineConfig, Lineup, SamplingParams
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.explain import explain, is_not_written
from mini_vllm_labs.runs.traces.recording import Recording

SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class TalkRun:
    """A run of chats: its recording, the text of each answer and, if it ended early, the reason."""

    recording: Recording
    texts: Mapping[str, str]
    problem: str = ""
    recorded: str = ""

    def __str__(self) -> str:
        return chats_as_text(self.texts) + (f"\n\n{self.problem}" if self.problem else "")


def talk(questions: Sequence[str], config: EngineConfig, params: SamplingParams, lineup: Lineup) -> TalkRun:
    """Answer all questions at once. If a step fails, the text generated before it is kept.

    A browser shows the answers as they are generated. Raises `ValueError` for a question that is too long, and
    `NotImplementedError` for an unwritten task.
    """
    llm = LLM(config=config, lineup=lineup, record=True, dense=True)
    engine, texts, problem = llm.engine, dict.fromkeys(questions, ""), ""
    engine.explain_steps()
    titles = {str(number): question for number, question in enumerate(texts)}
    for name, question in titles.items():
        prompt = engine.tokenizer.apply_chat_template([{"role": "user", "content": question}])
        engine.add_request(name, prompt, params)
    show, shown = live_display(), 0.0
    while engine.has_unfinished_requests() and not problem:
        try:
            for output in engine.step():
                texts[titles[output.request_id]] += output.new_text or output.error or ""
        except StalledError as error:
            problem = str(error)
        except (Exception, OutOfTime, SystemExit) as error:
            if is_not_written(error):
                raise
            problem = explain(error, {})
        if time.monotonic() - shown > SECONDS_BETWEEN_LOOKS:
            show(chats_as_text(texts))
            shown = time.monotonic()
    run = TalkRun(Recording.of(llm, titles), texts, problem)
    show(str(run))
    return run


def chats_as_text(texts: Mapping[str, str]) -> str:
    return "\n\n".join(f"> {question}\n{answer}" for question, answer in texts.items())


def live_display() -> Callable[[str], None]:
    """Return a function that replaces the text shown in the cell; outside a browser, the function does nothing."""
    if not IN_BROWSER:
        return lambda text: None
    from IPython.display import display

    def bundle(text: str) -> dict[str, str]:
        return {"text/plain": text}

    handle = display(bundle(""), raw=True, display_id=True)  # type: ignore[no-untyped-call]
    return lambda text: None if handle is None else handle.update(bundle(text), raw=True)
