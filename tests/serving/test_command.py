"""`mini-vllm serve` as a command: what it says before it serves, and what it refuses."""

import socket
import subprocess
import sys

import pytest

from mini_vllm.config import EngineConfig
from serving.cli import serve as command
from serving.settings import ServerSettings
from tests.cli.conftest import Commands, mini_vllm

__all__ = ["mini_vllm"]
FAKE_MODEL = ("--lineup", "solution:1-5", "--fake-model")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ServerSettings, EngineConfig]]:
    """What the command would have served."""
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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--port", 70000), "port must be from 0"),
        (("--request-timeout", 0), "request_timeout must be"),
        (("--api-key", ""), "api_key must be"),
        (("--max-num-waiting", 0), "max_num_waiting must be"),
        (("--num-gpu-blocks", 1), "num_gpu_blocks must be"),
        (("--host", "no.such.host.invalid"), "cannot listen on no.such.host.invalid"),
    ],
)
def test_a_wrong_value_is_named(mini_vllm: Commands, options: tuple[object, ...], text: str) -> None:
    assert text in mini_vllm("serve", *options, *FAKE_MODEL, exit_code=2).stderr


def test_a_port_that_is_taken_is_named(mini_vllm: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert (
            f"cannot listen on 127.0.0.1, port {port}"
            in mini_vllm("serve", "--port", port, *FAKE_MODEL, exit_code=2).stderr
        )


def test_without_the_extra_it_says_what_to_install(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "NEEDED", ("fastapi", "no_such_module"))
    shown = mini_vllm("serve", *FAKE_MODEL, exit_code=1).stderr
    assert "no_such_module" in shown
    assert "pip install -c constraints.txt -e '.[serve]'" in shown


def test_the_commands_do_not_load_the_server() -> None:
    code = "import sys, serving.cli.serve; print([name for name in sys.modules if name in ('fastapi', 'uvicorn')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
