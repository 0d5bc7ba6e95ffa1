"""`mini-vllm generate`: answer prompts."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from course.terminal.console import fail, friendly, make_console
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import (
    AdmissionGuard,
    BlockSize,
    Dtype,
    EnableChunkedPrefill,
    EnablePrefixCaching,
    EnforceEager,
    LineupText,
    LongPrefillTokenThreshold,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    ModelName,
    NumGpuBlocks,
    PrepackWeights,
    SchedulingPolicy,
    TensorParallelSize,
    engine_config,
    open_llm,
)
from mini_vllm.config import EngineConfig
from mini_vllm.engine.tokenizer import Message
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams


@friendly
def generate(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT...", help="One or more texts.", show_default=False)],
    model: ModelName = None,
    lineup: LineupText = None,
    max_tokens: Annotated[int, typer.Option(help="Most output tokens of a prompt.")] = 128,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Choose among the likeliest tokens of this share.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Choose among this many tokens; 0: all.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Makes the draws repeatable.", show_default=False)] = None,
    stop: Annotated[list[str] | None, typer.Option(help="A text that ends the answer. May be repeated.")] = None,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Put the prompt in the model's chat template.")] = True,
    system: Annotated[str | None, typer.Option(help="A system prompt, with --chat.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per prompt.")] = False,
    max_num_seqs: MaxNumSeqs = None,
    max_num_batched_tokens: MaxNumBatchedTokens = None,
    long_prefill_token_threshold: LongPrefillTokenThreshold = None,
    max_model_len: MaxModelLen = None,
    block_size: BlockSize = None,
    num_gpu_blocks: NumGpuBlocks = None,
    enable_prefix_caching: EnablePrefixCaching = None,
    enable_chunked_prefill: EnableChunkedPrefill = None,
    admission_guard: AdmissionGuard = None,
    scheduling_policy: SchedulingPolicy = None,
    tensor_parallel_size: TensorParallelSize = None,
    dtype: Dtype = None,
    enforce_eager: EnforceEager = None,
    prepack_weights: PrepackWeights = None,
) -> None:
    """Answer prompts. One prompt is printed while it grows, several when all are done."""
    params = SamplingParams(max_tokens, temperature, top_p, top_k, seed, tuple(stop or ()))
    params.validate()
    if system is not None and not chat:
        raise ValueError("--system needs --chat: without the chat template there is no place for it")
    team = lineup_to_run(lineup, make_console(stderr=True))
    config = engine_config(
        EngineConfig(),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        long_prefill_token_threshold=long_prefill_token_threshold,
        max_model_len=max_model_len,
        block_size=block_size,
        num_gpu_blocks=num_gpu_blocks,
        enable_prefix_caching=enable_prefix_caching,
        enable_chunked_prefill=enable_chunked_prefill,
        admission_guard=admission_guard,
        policy=scheduling_policy,
        tensor_parallel_size=tensor_parallel_size,
        dtype=dtype,
        enforce_eager=enforce_eager,
        prepack_weights=prepack_weights,
    )
    if team.runner == "absent":
        make_console(stderr=True).print("Phase 6 is absent: the fake model speaks, and its letters mean nothing.")
    llm = open_llm(model, config, team)
    streams = len(prompts) == 1 and not as_json
    on_step = show_new_text if streams else None
    if chat:
        outputs = llm.chat([conversation(system, prompt) for prompt in prompts], params, on_step)
    else:
        outputs = llm.generate(prompts, params, on_step)
    if streams:
        typer.echo()
    else:
        print_all(prompts, outputs, as_json)
    if broken := [output.error for output in outputs if output.error]:
        fail(broken[0], 1)


def conversation(system: str | None, prompt: str) -> list[Message]:
    """Return one question as a chat."""
    asked: Message = {"role": "user", "content": prompt}
    return [asked] if system is None else [{"role": "system", "content": system}, asked]


def show_new_text(outputs: list[RequestOutput]) -> None:
    """Write the text that is new, at once."""
    for output in outputs:
        typer.echo(output.new_text, nl=False)


def print_all(prompts: Sequence[str], outputs: Sequence[RequestOutput], as_json: bool) -> None:
    """Print finished outputs, for people or for programs."""
    for number, (prompt, output) in enumerate(zip(prompts, outputs, strict=True), start=1):
        if as_json:
            typer.echo(json.dumps(as_record(prompt, output)))
        else:
            typer.echo(f"{'' if number == 1 else chr(10)}[{number}] {prompt}\n{output.outputs[0].text.strip()}")


def as_record(prompt: str, output: RequestOutput) -> dict[str, Any]:
    """Return an output as JSON has it. Times are seconds."""
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
