"""Finds what watches an engine. Called where the engine is, which may be another process."""

from typing import TypeVar

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.observers import StepObserver

Observer = TypeVar("Observer", bound=StepObserver)


def observer_of(engine: LLMEngine, kind: type[Observer]) -> Observer:
    """Return the engine's observer of a kind. Raises `ValueError` if it has none."""
    for observer in engine.observers:
        if isinstance(observer, kind):
            return observer
    raise ValueError(f"nothing of the kind {kind.__name__} watches this engine")


def is_observed(engine: LLMEngine, kind: type[StepObserver]) -> bool:
    """Return whether an engine has an observer of a kind."""
    return any(isinstance(observer, kind) for observer in engine.observers)
