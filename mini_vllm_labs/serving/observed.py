"""Finds an engine's observers. Called where the engine is, which may be another process."""

from typing import TypeVar

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver

Observer = TypeVar("Observer", bound=StepObserver)


def observer_of(engine: LLMEngine, kind: type[Observer]) -> Observer:
    """Return the engine's observer of a class. Raises `ValueError` if it has none."""
    for observer in engine.observers:
        if isinstance(observer, kind):
            return observer
    raise ValueError(f"no {kind.__name__} observes this engine")
