"""`mini-vllm serve` as a command: its output before serving, what it refuses, and how a learner's error is shown."""

import socket
import subprocess
import sys
from functools import partial

import pytest

from labs.phase2_block_pool import starter
from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.errors import EngineDeadError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.installation import install_command
from mini_vllm_labs.cli.serving import serve as command
from mini_vllm_labs.cli.serving.engine_spec import EngineSpec
from mini_vllm_labs.pictures.terminal.console import traceback_from_labs
from mini_vllm_labs.runs.sandbox import time_limit
from mini_vllm_labs.serving.settings import ServerSettings
from tests.cli.conftest import Commands

FAKE_MODEL = ("--lineup", "solution:1-5", "--fake-model")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ServerSettings, EngineConfig]]:
    seen: list[tuple[ServerSettings, EngineConfig]] = []
    monkeypatch.setattr(command, "run_server", lambda settings, engine: seen.append((settings, engine.open().config)))
    return seen


def test_it_says_first_whose_code_runs(mini_vllm: Commands, served: list[tuple[ServerSettings, EngineConfig]]) -> None:
    shown = mini_vllm("serve", *FAKE_MODEL).stdout
    assert shown.startswith("Whose code runs:")
    assert "the fake model generates letters" in shown
    assert len(served) == 1


def test_options_become_settings(mini_vllm: Commands, served: list[tuple[ServerSettings, EngineConfig]]) -> None:
    ours = ("--host", "::1", "--port", 0, "--api-key", "k", "--request-timeout", 5, "--shutdown-timeout", 2)
    engines = ("--served-model-name", "m", "--max-num-waiting", 7, "--max-num-seqs", 3, "--block-size", 8)
    mini_vllm("serve", *ours, *engines, *FAKE_MODEL)
    settings, config = served[0]
    assert settings == ServerSettings("::1", 0, "m", "k", request_timeout=5, shutdown_timeout=2)
    assert (config.max_num_waiting, config.max_num_seqs, config.block_size) == (7, 3, 8)


def test_the_key_may_come_from_the_environment(
    mini_vllm: Commands, served: list[tuple[ServerSettings, EngineConfig]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "from outside")
    mini_vllm("serve", *FAKE_MODEL)
    assert served[0][0].api_key == "from outside"


def test_a_port_that_is_taken_is_named(mini_vllm: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert (
            f"cannot listen on 127.0.0.1, port {port}"
            in mini_vllm("serve", "--port", port, *FAKE_MODEL, exit_code=2).stderr
        )


def test_without_the_extra_the_command_says_what_to_install(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "NEEDED", ("fastapi", "no_such_module"))
    shown = mini_vllm("serve", *FAKE_MODEL, exit_code=1).stderr
    assert "no_such_module" in shown
    assert install_command("serve") in shown


def test_the_commands_do_not_load_the_server() -> None:
    code = "import sys, mini_vllm_labs.cli.serving.serve; print({'fastapi', 'uvicorn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


SPEC = EngineSpec(EngineConfig(num_gpu_blocks=64), parse_lineup("solution:1,starter:2,solution:3-5"))
RAISES = "def __init__(self, *arguments):\n    self.blocks = self.pool.blocks"
LOOPS = "def __init__(self, *arguments):\n    while True:\n        pass"


def open_with(source: str) -> LLMEngine:
    """Open an engine in its own process, with a learner's code as phase 2."""
    namespace: dict[str, object] = {}
    exec(compile(source, starter.__file__, "exec"), namespace)
    starter.PagedKVCacheManager.__init__ = namespace["__init__"]  # type: ignore[assignment,method-assign]
    time_limit.SECONDS, time_limit.PAUSE = 0.2, 0.05
    return SPEC.open()


def test_unwritten_phases_are_named() -> None:
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
