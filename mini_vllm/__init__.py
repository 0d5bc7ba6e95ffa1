"""mini-vLLM: a small inference engine whose decisions are vLLM's."""

from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.llm import LLM
from mini_vllm.outputs import CompletionOutput, RequestOutput
from mini_vllm.sampling_params import SamplingParams

__all__ = ["LLM", "CompletionOutput", "EngineConfig", "Lineup", "RequestOutput", "SamplingParams", "parse_lineup"]
