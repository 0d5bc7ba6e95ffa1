"""`mini-vllm chat`: a conversation on the lineup's engine, with the cost of each turn below its answer."""

import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from mini_vllm import LLM, EngineConfig, RequestOutput, SamplingParams
from mini_vllm.session import Session
from mini_vllm_labs.pictures.terminal.console import friendly, is_live, make_console, traceback_from_labs, whose_code
from mini_vllm_labs.pictures.terminal.engine_options import EngineOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run, remark_on_electives
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import (
    FakeModel,
    LineupText,
    ModelName,
    open_llm,
    remark_on_phase_6,
    stands_in_for_phase_6,
)
from mini_vllm_labs.pictures.terminal.step_view import FAINT, render_step
from mini_vllm_labs.pictures.terminal.typed_lines import typed_lines
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState
from mini_vllm_labs.runs.workloads.fallbacks import make_possible

CONFIG = EngineConfig(
    max_num_batched_tokens=256, long_prefill_token_threshold=64, max_model_len=1024, num_gpu_blocks=65
)
WHAT_IT_KNOWS = (
    'The embedded model was trained on a small invented world. Try: "Tell me a story about Mina and a kite.", '
    '"What is the capital of France?", "What is 3 plus 4?" It is here to be served, not to be right.'
)
COMMANDS = (
    "/new starts another conversation, /rewind N takes back N turns, /fork continues in a copy, /switch N goes to "
    "conversation N, /save FILE keeps it for --resume FILE, /quit ends it."
)
COMMAND = re.compile(r"/([a-z]+)(?:\s+(.+))?")


@friendly
@with_option_groups
def chat(
    model: ModelName = None,
    lineup: LineupText = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum output tokens per answer.")] = 120,
    temperature: Annotated[float, typer.Option(min=0, help="0: greedy, always the likeliest token.")] = 0.0,
    show: Annotated[bool, typer.Option("--show", help="Draw the engine's steps while it answers.")] = False,
    fake_model: FakeModel = False,
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Continue a conversation that /save kept.")
    ] = None,
    *,
    engine: EngineOptions,
) -> None:
    """Talk to the model; each turn sends the whole conversation again.

    Watch the prefix cache find the earlier turns of the conversation.
    """
    console = make_console()
    team = lineup_to_run(lineup, console, WHOLE_REFERENCE)
    dense = stands_in_for_phase_6(team, model, fake_model=fake_model)
    config, remarks = make_possible(engine_config(CONFIG, engine), team)
    remarks += [remark_on_phase_6(team, dense=dense), remark_on_electives(team, config)]
    for line in filter(None, [whose_code(team), *remarks]):
        console.print(line, markup=False)
    llm = open_llm(
        model, config, team, record=True, dense=dense, on_progress=lambda text: console.print(text, style=FAINT)
    )
    if model is None and (dense or team.runner != "absent"):
        console.print(WHAT_IT_KNOWS, markup=False)
    console.print(COMMANDS, markup=False)
    session = Session(llm) if resume is None else Session.resume(llm, resume)
    if resume is not None:
        console.print(f"{count_of(session)} from {resume}.", style=FAINT, markup=False)
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature)
    Conversation(llm, console, params, show=show, session=session).run(typed_lines("you: "))


class Conversation:
    """A conversation and its forks, only one of which continues, and the questions asked in all of them."""

    def __init__(
        self, llm: LLM, console: Console, params: SamplingParams, *, show: bool, session: Session | None = None
    ) -> None:
        self.llm, self.console, self.params, self.show = llm, console, params, show
        self.session = session or Session(llm)
        self.sessions = [self.session]
        self.questions: list[str] = []
        self.num_prompt_tokens: dict[str, int] = {}
        self.state = RunState(self._run_info())
        self.num_drawn_steps = 0

    def run(self, lines: Iterator[str]) -> None:
        """Answer line by line until the input ends or the user exits."""
        for line in lines:
            match line.strip():
                case "":
                    continue
                case "/quit":
                    return
                case text:
                    try:
                        command = COMMAND.fullmatch(text)
                        self.take_turn(text) if command is None else self.obey(*command.groups())
                    except ValueError as error:
                        if traceback_from_labs(error):
                            raise
                        self.console.print(str(error), markup=False, highlight=False)

    def obey(self, command: str, argument: str | None) -> None:
        """Run a line that begins with a slash, and print its effect. Raises `ValueError` if the command cannot be
        carried out."""
        match command:
            case "new":
                self._start(Session(self.llm), "A new conversation")
            case "fork":
                self._start(self.session.fork(), f"A fork of conversation {self.sessions.index(self.session) + 1}")
            case "switch":
                self.session = self.sessions[_number(command, argument, len(self.sessions)) - 1]
                self._tell(f"{count_of(self.session)} in conversation {argument}.")
            case "rewind":
                self.session.rewind(_number(command, argument or "1", len(self.session.turns)))
                self._tell(f"{count_of(self.session)} left.")
            case "save":
                self._save(argument)
            case _:
                raise ValueError(f"unknown command /{command}. {COMMANDS}")

    def _start(self, session: Session, what: str) -> None:
        self.session = session
        self.sessions.append(session)
        self._tell(f"{what}: number {len(self.sessions)}.")

    def _save(self, argument: str | None) -> None:
        path = argument or self.session.path
        if path is None:
            raise ValueError("/save needs a file name")
        self.session.save(path)
        transfer = self.llm.engine.config.kv_transfer_config
        folder = None if transfer is None else transfer.shared_storage_path
        kept = "will be computed again (--kv-connector disk keeps them)" if folder is None else f"are in {folder}"
        self._tell(f"{count_of(self.session)} saved to {path}; K and V {kept}.")

    def _tell(self, text: str) -> None:
        self.console.print(text, style=FAINT, markup=False, highlight=False)

    def take_turn(self, question: str) -> None:
        """Send the whole conversation with the new question; print the answer and its cost."""
        num_prompt_tokens = len(self._prompt_that_fits(question))
        request_id = str(len(self.questions))
        self.questions.append(question)
        self.num_prompt_tokens[request_id] = num_prompt_tokens
        self.state.info = self._run_info()
        started, first_step = time.perf_counter(), len(self.llm.engine.recorder.steps)
        output = self._answer(question)
        seconds = time.perf_counter() - started
        num_steps = len(self.llm.engine.recorder.steps) - first_step
        self.console.print(f"\n{turn_line(output, num_steps, seconds)}", style=FAINT, markup=False, highlight=False)

    def _answer(self, question: str) -> RequestOutput:
        if self.show and is_live(self.console):
            with Live(console=self.console, auto_refresh=False, transient=True) as live:
                output = self.session.chat(question, self.params, lambda outputs: self._draw(live, outputs))
            self.console.print(output.outputs[0].text, markup=False, highlight=False)
            return output
        return self.session.chat(question, self.params, self._stream)

    def _stream(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            self.console.print(output.new_text, end="", markup=False, highlight=False, soft_wrap=True)

    def _draw(self, live: Live, outputs: list[RequestOutput]) -> None:
        steps = self.llm.engine.recorder.steps
        for record in islice(steps, self.num_drawn_steps, None):
            self.state.advance(record)
        self.num_drawn_steps = len(steps)
        self.state.texts |= {output.request_id: output.outputs[0].text for output in outputs}
        title = f"mini-vLLM chat ({self.llm.lineup})"
        live.update(render_step(self.state, self.console.width - 1, title), refresh=True)

    def _run_info(self) -> RunInfo:
        scheduler = self.llm.engine.scheduler
        return RunInfo(
            titles={str(number): question for number, question in enumerate(self.questions)},
            num_prompt_tokens=dict(self.num_prompt_tokens),
            num_blocks=scheduler.kv.num_usable_blocks,
            block_size=scheduler.kv.block_size,
            token_budget=scheduler.max_num_batched_tokens,
        )

    def _prompt_that_fits(self, question: str) -> list[int]:
        room = self.llm.engine.scheduler.max_model_len - self.params.max_tokens
        while len(prompt := self.session.chat_prompt(question)) > room and self.session.forget_oldest():
            self.console.print("The oldest turn no longer fits and is left out.", style=FAINT)
        return prompt


def count_of(session: Session) -> str:
    """Describe the length of a conversation."""
    return f"{len(session.turns)} turn{'s' * (len(session.turns) != 1)}, {len(session.token_ids)} tokens"


def _number(command: str, argument: str | None, most: int) -> int:
    if argument is None or not argument.isdecimal() or not 1 <= int(argument) <= most:
        raise ValueError(f"/{command} N: N must be from 1 to {most}, got {argument or 'nothing'}")
    return int(argument)


def turn_line(output: RequestOutput, num_steps: int, seconds: float) -> str:
    """Return the cost of a turn: prompt tokens, cached tokens, output tokens, steps and times."""
    metrics = output.metrics
    first = 1000 * (metrics.time_to_first_token or 0.0)
    preempted = f", preempted {metrics.num_preemptions} times" if metrics.num_preemptions else ""
    return (
        f"[{len(output.prompt_token_ids)} prompt tokens, {metrics.num_cached_tokens} of them from the cache; "
        f"{metrics.num_output_tokens} output tokens in {num_steps} steps{preempted}; "
        f"first token after {first:.0f} ms, {seconds:.2f} s in total]"
    )
