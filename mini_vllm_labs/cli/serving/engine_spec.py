"""The recipe for an engine, which can be sent to another process."""

from collections.abc import Mapping
from dataclasses import dataclass

from mini_vllm import EngineConfig, Lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.engine.errors import EngineDeadError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.runs.sandbox.errors import OutOfTime
from mini_vllm_labs.runs.sandbox.explain import explain
from mini_vllm_labs.runs.sandbox.time_limit import limited_calls


@dataclass(frozen=True)
class EngineSpec:
    config: EngineConfig
    lineup: Lineup
    model: str | None = None
    dense: bool = False
    adapters: Mapping[str, str] | None = None

    def open(self) -> LLMEngine:
        """Build and return the engine.

        Raises the same errors as `build_engine`, and `EngineDeadError` if a learner's part never returns.
        """
        try:
            with limited_calls():
                return build_engine(self.config, self.lineup, self.model, dense=self.dense, adapters=self.adapters)
        except OutOfTime as error:
            raise EngineDeadError(explain(error, {})) from None
