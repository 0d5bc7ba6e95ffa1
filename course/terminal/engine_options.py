"""The engine's settings as options of a command, declared once for all commands."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import typer

from mini_vllm.config import EngineConfig, SpeculativeConfig

R = TypeVar("R")
Settings = Mapping[str, object]
"""Names of `EngineConfig` to the values of a command line; None where the option was not given."""


def _option(*names: str, help: str | None = None) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel="Engine settings, named as in vLLM")


OPTIONS: dict[str, Any] = {
    "max_num_seqs": Annotated[int | None, _option(help="Most running requests.")],
    "max_num_batched_tokens": Annotated[int | None, _option(help="Token budget of a step.")],
    "long_prefill_token_threshold": Annotated[
        int | None, _option(help="Most tokens of one request in a step; 0: no limit.")
    ],
    "max_model_len": Annotated[int | None, _option(help="Most tokens of a request.")],
    "block_size": Annotated[int | None, _option(help="Tokens per block.")],
    "num_gpu_blocks": Annotated[int | None, _option(help="Blocks, null block included.")],
    "enable_prefix_caching": Annotated[bool | None, _option("--enable-prefix-caching/--no-enable-prefix-caching")],
    "enable_chunked_prefill": Annotated[bool | None, _option("--enable-chunked-prefill/--no-enable-chunked-prefill")],
    "admission_guard": Annotated[bool | None, _option("--admission-guard/--no-admission-guard")],
    "policy": Annotated[Literal["fcfs", "priority"] | None, _option("--scheduling-policy")],
    "speculative_method": Annotated[
        Literal["ngram", "draft_model"] | None,
        _option(help="Draft tokens by prompt lookup or by a small model; needs phase 7."),
    ],
    "num_speculative_tokens": Annotated[int | None, _option(help="Most drafts of a request in a step. Default: 4.")],
    "async_scheduling": Annotated[
        bool | None,
        _option("--async-scheduling/--no-async-scheduling", help="Plan a step ahead of the runner; needs phase 8."),
    ],
    "check_invariants": Annotated[
        bool | None,
        _option(
            "--check-invariants/--no-check-invariants",
            help="Check queues, counters and blocks after every step. Not in vLLM.",
        ),
    ],
    "tensor_parallel_size": Annotated[int | None, _option(help="Processes that share the model, a GPU each.")],
    "dtype": Annotated[
        Literal["float32", "bfloat16"] | None, _option(help="Type of weights and KV cache. Default: float32.")
    ],
    "enforce_eager": Annotated[
        bool | None,
        _option("--enforce-eager/--no-enforce-eager", help="On a GPU, run every step without CUDA graphs."),
    ],
    "prepack_weights": Annotated[
        bool | None,
        _option("--prepack-weights/--no-prepack-weights", help="Reorder the weights for this CPU at load."),
    ],
}
SCHEDULER = tuple(OPTIONS)[:9]
"""The settings that every command with a scheduler has."""
ELECTIVES = ("speculative_method", "num_speculative_tokens", "async_scheduling")
RUNNER = ("tensor_parallel_size", "dtype", "enforce_eager", "prepack_weights")


def with_engine_options(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command an option for each setting; it receives all of them as its argument `settings`."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def with_settings(**arguments: Any) -> R:
            settings = {name: arguments.pop(name) for name in names}
            return command(**arguments, settings=settings)

        own = [each for each in inspect.signature(command).parameters.values() if each.name != "settings"]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        options = [inspect.Parameter(name, kind, default=None, annotation=OPTIONS[name]) for name in names]
        # Typer reads a command's options from its signature.
        with_settings.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        return with_settings

    return decorate


def engine_config(defaults: EngineConfig, settings: Settings) -> EngineConfig:
    """Return `defaults` with the settings that were given. Raises `ValueError` as `EngineConfig` does."""
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    method, num_drafts = given.pop("speculative_method", None), given.pop("num_speculative_tokens", None)
    if method is None and num_drafts is not None:
        raise ValueError(f"num_speculative_tokens={num_drafts} needs --speculative-method: ngram or draft_model")
    if method is not None:
        drafts = SpeculativeConfig(method)
        given["speculative_config"] = (
            drafts if num_drafts is None else replace(drafts, num_speculative_tokens=num_drafts)
        )
    return replace(defaults, **given)
