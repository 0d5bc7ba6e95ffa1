"""`mini-vllm chat`: a conversation on the engine of the lineup, with the cost of each turn below its answer."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from course.terminal.console import friendly, is_live, make_console, whose_code
from course.terminal.engine_options import EngineOptions, engine_config
from course.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run, remark_on_electives
from course.terminal.option_groups import with_option_groups
from course.terminal.options import FakeModel, LineupText, ModelName, open_llm, remark_on_phase_6, stands_in_for_phase_6
from course.terminal.step_view import FAINT, render_step
from course.terminal.typed_lines import typed_lines
from course.traces.run_state import RunInfo, RunState
from course.workloads.fallbacks import make_possible
from mini_vllm import LLM, EngineConfig, RequestOutput, SamplingParams
from mini_vllm.core.tokenizer import Message

CONFIG = EngineConfig(
    max_num_batched_tokens=256, long_prefill_token_threshold=64, max_model_len=1024, num_gpu_blocks=65
)
WHAT_IT_KNOWS = (
    'The embedded model was trained on a small invented world. Try: "Tell me a story about Mina and a kite.", '
    '"What is the capital of France?", "What is 3 plus 4?" It is here to be served, not to be right.'
)
COMMANDS = "/new forgets the conversation, /quit ends it."


@friendly
@with_option_groups
def chat(
    model: ModelName = None,
    lineup: LineupText = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum output tokens per answer.")] = 120,
    temperature: Annotated[float, typer.Option(min=0, help="0: greedy, always the likeliest token.")] = 0.0,
    show: Annotated[bool, typer.Option("--show", help="Draw the engine's steps while it answers.")] = False,
    fake_model: FakeModel = False,
    *,
    engine: EngineOptions,
) -> None:
    """Talk to the model; each turn sends the whole conversation again.

    Watch the prefix cache find it.
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
    Conversation(llm, console, SamplingParams(max_tokens=max_tokens, temperature=temperature), show=show).run(
        typed_lines("you: ")
    )


class Conversation:
    """One conversation: its messages so far, and the turns of this session."""

    def __init__(self, llm: LLM, console: Console, params: SamplingParams, *, show: bool) -> None:
        self.llm, self.console, self.params, self.show = llm, console, params, show
        self.messages: list[Message] = []
        self.questions: list[str] = []
        self.num_prompt_tokens: dict[str, int] = {}
        self.state = RunState(self._run_info())
        self.num_drawn_steps = 0

    def run(self, lines: Iterator[str]) -> None:
        """Answer line by line until the lines or the user end it."""
        for line in lines:
            match line.strip():
                case "":
                    continue
                case "/quit":
                    return
                case "/new":
                    self.messages.clear()
                    self.console.print("A new conversation.", style=FAINT)
                case question:
                    self.take_turn(question)

    def take_turn(self, question: str) -> None:
        """Send the whole conversation with the new question, print the answer and what it took."""
        self.messages.append({"role": "user", "content": question})
        self._forget_what_does_not_fit()
        request_id = str(len(self.questions))
        self.questions.append(question)
        self.num_prompt_tokens[request_id] = len(self._prompt())
        self.state.info = self._run_info()
        started, first_step = time.perf_counter(), len(self.llm.engine.recorder.steps)
        output = self._answer()
        seconds = time.perf_counter() - started
        text = output.outputs[0].text
        self.messages.append({"role": "assistant", "content": text})
        num_steps = len(self.llm.engine.recorder.steps) - first_step
        self.console.print(f"\n{turn_line(output, num_steps, seconds)}", style=FAINT, markup=False, highlight=False)

    def _answer(self) -> RequestOutput:
        if self.show and is_live(self.console):
            with Live(console=self.console, auto_refresh=False, transient=True) as live:
                (output,) = self.llm.chat(self.messages, self.params, lambda outputs: self._draw(live, outputs))
            self.console.print(output.outputs[0].text, markup=False, highlight=False)
            return output
        (output,) = self.llm.chat(self.messages, self.params, self._stream)
        return output

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

    def _prompt(self) -> list[int]:
        return self.llm.engine.tokenizer.apply_chat_template(self.messages)

    def _forget_what_does_not_fit(self) -> None:
        room = self.llm.engine.scheduler.max_model_len - self.params.max_tokens
        while len(self._prompt()) > room and len(self.messages) > 1:
            del self.messages[:2]
            self.console.print("The oldest turn no longer fits and is left out.", style=FAINT)


def turn_line(output: RequestOutput, num_steps: int, seconds: float) -> str:
    """Return what a turn took: prompt tokens and those found in the cache, output tokens, steps, times."""
    metrics = output.metrics
    first = 1000 * (metrics.time_to_first_token or 0.0)
    preempted = f", preempted {metrics.num_preemptions} times" if metrics.num_preemptions else ""
    return (
        f"[{len(output.prompt_token_ids)} prompt tokens, {metrics.num_cached_tokens} of them from the cache; "
        f"{metrics.num_output_tokens} output tokens in {num_steps} steps{preempted}; "
        f"first token after {first:.0f} ms, {seconds:.2f} s in all]"
    )
