"""mini-vLLM: a small inference engine that makes the same decisions as vLLM."""

from typing import TYPE_CHECKING, Any

from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.environment import bound_spinning
from mini_vllm.outputs import CompletionOutput, RequestOutput
from mini_vllm.sampling_params import SamplingParams

if TYPE_CHECKING:
    from mini_vllm.llm import LLM

__all__ = ["LLM", "CompletionOutput", "EngineConfig", "Lineup", "RequestOutput", "SamplingParams", "parse_lineup"]

bound_spinning()  # set here, because the engine always imports torch later


def __getattr__(name: str) -> Any:
    """Import `LLM` on first use, so that commands that only need a lineup start 0.1 s sooner."""
    if name != "LLM":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mini_vllm.llm import LLM

    return LLM
