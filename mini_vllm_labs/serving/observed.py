"""Finds an engine's observers. Call these functions in the engine's process, which may differ from the server's."""

from typing import TypeVar

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver

Observer = TypeVar("Observer", bound=StepObserver)


def observer_of(engine: LLMEngine, kind: type[Observer]) -> Observer:
    """Return the engine's observer of class `kind`. Raises `ValueError` if it has no such observer."""
    for observer in engine.observers:
        if isinstance(observer, kind):
            return observer
    raise ValueError(f"no {kind.__name__} observes this engine")
