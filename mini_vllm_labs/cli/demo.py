"""`mini-vllm demo` serves several prompts at once in a deliberately small pool, and shows every step."""

import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from mini_vllm import LLM, EngineConfig, Lineup, RequestOutput, SamplingParams
from mini_vllm.core.tokenizer import Message
from mini_vllm_labs.cli.report import per_request, phase_by_phase, texts, totals
from mini_vllm_labs.pictures.terminal.console import friendly, is_live, make_console, whose_code
from mini_vllm_labs.pictures.terminal.learner_lineup import is_chosen, lineup_to_run, say_what_you_have
from mini_vllm_labs.pictures.terminal.options import (
    FakeModel,
    LineupText,
    ModelName,
    open_llm,
    remark_on_phase_6,
    stands_in_for_phase_6,
)
from mini_vllm_labs.pictures.terminal.step_line import LineWriter, decoding_requests, legend
from mini_vllm_labs.pictures.terminal.step_view import FAINT, render_step
from mini_vllm_labs.runs.starter_status import written_lineup
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.runs.workloads.fallbacks import make_possible

CHATS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NOTES: str = CHATS["notes"]
QUESTIONS: Sequence[tuple[str, str]] = CHATS["questions"]
MAX_TOKENS = 120

SMALL_POOL = EngineConfig(
    max_num_seqs=5,
    max_num_batched_tokens=48,
    long_prefill_token_threshold=32,
    max_model_len=288,
    block_size=16,
    num_gpu_blocks=19,
)
LIVE_DELAY = 0.05
EVENT_FACTOR = 8


@dataclass(frozen=True)
class DemoPlan:
    """The demo's conversations with their titles, the settings, and notes on the settings that were adjusted.

    `pool` contains the settings of an engine with all phases.
    """

    titles: list[str]
    conversations: list[list[Message]]
    pool: EngineConfig
    config: EngineConfig
    max_tokens: int
    remarks: list[str]


def plan_demo(lineup: Lineup, *, dense: bool = False) -> DemoPlan:
    """Return the demo for a lineup, with settings adjusted to absent phases; `dense` is passed to `LLM`."""
    config, remarks = SMALL_POOL, []
    if lineup.runner == "absent" and not dense:
        # The fake model's tokens are bytes, so the same text takes about four times as many tokens.
        config = replace(
            config, max_num_batched_tokens=192, long_prefill_token_threshold=128, max_model_len=1024, num_gpu_blocks=57
        )
    if remark := remark_on_phase_6(lineup, dense=dense):
        remarks.append(remark)
    pool = config
    config, more = make_possible(pool, lineup)
    return DemoPlan(
        titles=[f"{kind}: {question}" if kind else question for kind, question in QUESTIONS],
        conversations=[conversation(kind, question) for kind, question in QUESTIONS],
        pool=pool,
        config=replace(config, check_invariants=True),
        max_tokens=MAX_TOKENS,
        remarks=[*more, *remarks],
    )


def conversation(kind: str, question: str) -> list[Message]:
    """Return one question as a chat; its system prompt contains the notes if the question is about them."""
    message: Message = {"role": "user", "content": question}
    return [{"role": "system", "content": NOTES}, message] if kind == "notes" else [message]


class EngineClock:
    """Seconds of engine time; the clock stops while a step is drawn and while the demo pauses."""

    def __init__(self) -> None:
        self._stopped_for = 0.0
        self._stopped_at = 0.0

    def __call__(self) -> float:
        return time.monotonic() - self._stopped_for

    def stop(self) -> None:
        """Stop the clock until `go` is called."""
        self._stopped_at = time.monotonic()

    def go(self) -> None:
        self._stopped_for += time.monotonic() - self._stopped_at


def run_info(llm: LLM, plan: DemoPlan) -> RunInfo:
    """Return the facts that a picture needs before the run; request ids are those of a new `LLM`."""
    scheduler, template = llm.engine.scheduler, llm.engine.tokenizer.apply_chat_template
    return RunInfo(
        titles={str(index): title for index, title in enumerate(plan.titles)},
        num_prompt_tokens={str(index): len(template(chat)) for index, chat in enumerate(plan.conversations)},
        num_blocks=scheduler.kv.num_usable_blocks,
        block_size=scheduler.kv.block_size,
        token_budget=scheduler.max_num_batched_tokens,
    )


class Watcher:
    """Update the state after a step, and show it live or as a line."""

    def __init__(self, llm: LLM, plan: DemoPlan, console: Console, live: Live | None, delay: float) -> None:
        self.heading = f"mini-vLLM demo ({llm.lineup})"
        self.info = run_info(llm, plan)
        self.state, self.clock = RunState(self.info), EngineClock()
        self._llm, self._console, self._live, self._delay = llm, console, live, delay
        self._lines = LineWriter(lambda line: console.print(line, markup=False, soft_wrap=True))
        llm.engine.clock = self.clock
        self.started, self.seconds = self.clock(), 0.0

    def __call__(self, outputs: list[RequestOutput]) -> None:
        """Show the step that has just finished."""
        self.clock.stop()
        recorder = self._llm.engine.recorder
        for record in recorder.steps[len(self.state.blocks_in_use) :]:
            self.state.advance(record)
        for output in outputs:
            self.state.texts[output.request_id] = output.outputs[0].text
        if self._live is not None:
            self._live.update(render_step(self.state, self._console.width - 1, self.heading), refresh=True)
        else:
            self._lines.add(self.state)
            if not self._llm.engine.has_unfinished_requests():
                self._lines.flush()
        time.sleep(self._delay * (1 if decoding_requests(self.state) else EVENT_FACTOR))
        self.clock.go()
        self.seconds = self.clock() - self.started


@friendly
def demo(
    model: ModelName = None,
    lineup: LineupText = None,
    fake_model: FakeModel = False,
    delay: Annotated[
        float | None,
        typer.Option(
            "--delay",
            "--speed",
            min=0,
            help=f"Seconds to show a step; steps with events stay {EVENT_FACTOR} times as long. "
            f"Default: {LIVE_DELAY} in a terminal, else 0.",
        ),
    ] = None,
) -> None:
    """Watch the engine serve several prompts together, step by step.

    The pool of blocks is deliberately too small: requests are preempted, prompts are computed in chunks, and prompts
    with the same notes hit the prefix cache.
    """
    console = make_console()
    if not is_chosen(lineup):
        say_what_you_have(console)
        if written_lineup() is None:
            return
    team = lineup_to_run(lineup, console)
    dense = stands_in_for_phase_6(team, model, fake_model=fake_model)
    plan = plan_demo(team, dense=dense)
    console.print(whose_code(team), markup=False)
    for remark in plan.remarks:
        console.print(remark, markup=False)
    llm = open_llm(
        model, plan.config, team, record=True, dense=dense, on_progress=lambda text: console.print(text, style=FAINT)
    )
    if delay is None:
        delay = LIVE_DELAY if is_live(console) else 0.0
    watcher, outputs = run(llm, plan, console, delay)
    state = watcher.state
    console.print()
    console.print(texts(state, outputs))
    console.print("\nPer request: tokens, and milliseconds of the engine's own time.", style=FAINT)
    console.print(per_request(state, outputs))
    console.print()
    console.print(totals(state, outputs, watcher.seconds))
    if team.kv_cache != "absent":
        console.print()
        console.print(phase_by_phase(team, outputs, plan.pool, plan.max_tokens))


def run(llm: LLM, plan: DemoPlan, console: Console, delay: float) -> tuple[Watcher, list[RequestOutput]]:
    params = SamplingParams(max_tokens=plan.max_tokens)
    if not is_live(console):
        watcher = Watcher(llm, plan, console, None, delay)
        console.print(legend(watcher.info), markup=False, soft_wrap=True)
        return watcher, llm.chat(plan.conversations, params, on_step=watcher)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        watcher = Watcher(llm, plan, console, live, delay)
        return watcher, llm.chat(plan.conversations, params, on_step=watcher)
