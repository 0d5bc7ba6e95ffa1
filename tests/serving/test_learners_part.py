"""A learner's part that fails while the server opens its engine, in another process: the learner reads where."""

from functools import partial

import pytest

from course.sandbox import time_limit
from course.terminal.console import traceback_from_labs
from labs.phase2_block_pool import starter
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.errors import EngineDeadError
from mini_vllm.engine.llm_engine import LLMEngine
from serving.cli.engine_spec import EngineSpec

SPEC = EngineSpec(EngineConfig(num_gpu_blocks=64), parse_lineup("solution:1,starter:2,solution:3-5"))
RAISES = "def __init__(self, *arguments):\n    self.blocks = self.pool.blocks"
LOOPS = "def __init__(self, *arguments):\n    while True:\n        pass"


def open_with(source: str) -> LLMEngine:
    """Open an engine, in its process, whose phase 2 is what a learner has written."""
    namespace: dict[str, object] = {}
    exec(compile(source, starter.__file__, "exec"), namespace)
    starter.PagedKVCacheManager.__init__ = namespace["__init__"]  # type: ignore[assignment,method-assign]
    time_limit.SECONDS, time_limit.PAUSE = 0.2, 0.05
    return SPEC.open()


def test_what_is_not_written_is_named() -> None:
    with pytest.raises(NotImplementedError, match="Phase 2, task 3"):
        AsyncLLM(SPEC.open)


def test_an_error_is_shown_from_the_learners_file_on() -> None:
    with pytest.raises(AttributeError, match="no attribute 'pool'") as raised:
        AsyncLLM(partial(open_with, RAISES))
    shown = traceback_from_labs(raised.value) or ""
    assert 'phase2_block_pool/starter.py", line 2, in __init__' in shown.replace("\\", "/")
    assert "mini_vllm/" not in shown, "the frames above are ours"


def test_a_loop_is_stopped_and_its_line_shown() -> None:
    with pytest.raises(EngineDeadError, match=r"still running after 0\.2 seconds") as raised:
        AsyncLLM(partial(open_with, LOOPS))
    assert "starter.py" in str(raised.value)
    assert "in __init__" in str(raised.value)
