"""`mini-vllm generate`: generates text from prompts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mini_vllm import EngineConfig, RequestOutput, SamplingParams
from mini_vllm.core.tokenizer import Message
from mini_vllm.sampling_params import StructuredOutputsParams
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console
from mini_vllm_labs.pictures.terminal.engine_options import EngineOptions, RunnerOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import WHOLE_REFERENCE, lineup_to_run
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import (
    FakeModel,
    LineupText,
    ModelName,
    adapters_of,
    open_llm,
    remark_on_phase_6,
    stands_in_for_phase_6,
)
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.runs.starter_status import is_begun, unwritten_tasks


@dataclass(frozen=True)
class SamplingOptions:
    """The options that control sampling and when an output ends."""

    max_tokens: Annotated[int, typer.Option(help="Maximum output tokens per prompt.")] = 128
    temperature: Annotated[float, typer.Option(help="0: greedy, always the likeliest token.")] = 0.0
    top_p: Annotated[float, typer.Option(help="Sample from the likeliest tokens with this total probability.")] = 1.0
    top_k: Annotated[int, typer.Option(help="Sample from this many likeliest tokens; 0: all.")] = 0
    seed: Annotated[int | None, typer.Option(help="Seed of the sampling.", show_default=False)] = None
    stop: Annotated[list[str] | None, typer.Option(help="A stop string. May be repeated.")] = None
    regex: Annotated[str | None, typer.Option(help="A regex that the whole output must match (phase 9).")] = None
    choice: Annotated[list[str] | None, typer.Option(help="A possible output (phase 9). May be repeated.")] = None
    json_schema: Annotated[str | None, typer.Option(help="A JSON schema of the output, or @FILE (phase 9).")] = None

    def params(self) -> SamplingParams:
        """Return these options as the engine's sampling parameters. Raises `ValueError` in the same cases as
        `SamplingParams`."""
        settings = vars(self) | {"stop": tuple(self.stop or ())}
        regex, choice, schema = (settings.pop(name) for name in ("regex", "choice", "json_schema"))
        if schema is not None and schema.startswith("@"):
            schema = Path(schema[1:]).read_text(encoding="utf-8")
        structured = StructuredOutputsParams(json=schema, regex=regex, choice=tuple(choice) if choice else None)
        is_free = structured == StructuredOutputsParams()
        params = SamplingParams(**settings, structured_outputs=None if is_free else structured)
        params.validate()
        return params


@friendly
@with_option_groups
def generate(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT...", help="One or more prompts.", show_default=False)],
    model: ModelName = None,
    lineup: LineupText = None,
    *,
    sampling: SamplingOptions,
    adapter: Annotated[str | None, typer.Option(metavar="NAME=PATH", help="An adapter (phase 11).")] = None,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Use the model's chat template.")] = True,
    system: Annotated[str | None, typer.Option(help="A system prompt, with --chat.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per prompt.")] = False,
    fake_model: FakeModel = False,
    engine: EngineOptions,
    runner: RunnerOptions,
) -> None:
    """Generate text from prompts.

    A single output is streamed; several outputs are printed once they have all finished.
    """
    params, adapters = sampling.params(), adapters_of([adapter] if adapter else [])
    if system is not None and not chat:
        raise ValueError("--system needs --chat: only a chat template has room for a system prompt")
    team = lineup_to_run(lineup, make_console(stderr=True), WHOLE_REFERENCE)
    config = engine_config(EngineConfig(), engine, runner)
    dense = stands_in_for_phase_6(team, model, fake_model=fake_model)
    if remark := remark_on_phase_6(team, dense=dense):
        make_console(stderr=True).print(remark)
    if team.runner == "starter" and not is_begun(6):  # must come before importing torch, which is slow
        raise NotImplementedError(unwritten_tasks(6)[0])
    with reported("Loading torch and the model"):
        llm = open_llm(model, config, team, dense=dense, adapters=adapters)
    chats = [conversation(system, prompt) for prompt in prompts]
    serve = partial(llm.chat, chats, params) if chat else partial(llm.generate, prompts, params)
    serve = partial(serve, adapter=next(iter(adapters), None))
    if len(prompts) == 1 and not as_json:
        outputs = serve(show_new_text)
        typer.echo()
    else:
        num_finished = 0
        with reported("Generating") as report:

            def count_finished(new: list[RequestOutput]) -> None:
                nonlocal num_finished
                num_finished += sum(output.finished for output in new)
                report("Generating: prompts finished", num_finished, len(prompts))

            outputs = serve(count_finished)
        print_all(prompts, outputs, as_json)
    if broken := [output.error for output in outputs if output.error]:
        fail(broken[0], 1)


def conversation(system: str | None, prompt: str) -> list[Message]:
    """Return one prompt as a chat."""
    question: Message = {"role": "user", "content": prompt}
    return [question] if system is None else [{"role": "system", "content": system}, question]


def show_new_text(outputs: list[RequestOutput]) -> None:
    for output in outputs:
        typer.echo(output.new_text, nl=False)


def print_all(prompts: Sequence[str], outputs: Sequence[RequestOutput], as_json: bool) -> None:
    for number, (prompt, output) in enumerate(zip(prompts, outputs, strict=True), start=1):
        if as_json:
            typer.echo(json.dumps(as_record(prompt, output)))
        else:
            typer.echo(f"{'' if number == 1 else chr(10)}[{number}] {prompt}\n{output.outputs[0].text.strip()}")


def as_record(prompt: str, output: RequestOutput) -> dict[str, Any]:
    """Return an output as a JSON object. Times are in seconds."""
    completion, metrics = output.outputs[0], output.metrics
    return {
        "request_id": output.request_id,
        "prompt": prompt,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
        "num_prompt_tokens": len(output.prompt_token_ids),
        "num_cached_tokens": metrics.num_cached_tokens,
        "num_output_tokens": metrics.num_output_tokens,
        "num_preemptions": metrics.num_preemptions,
        "time_to_first_token": metrics.time_to_first_token,
        "inter_token_latency": metrics.inter_token_latency,
        "error": output.error,
    }
