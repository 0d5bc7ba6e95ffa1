"""`mini-vllm generate`: text, JSON, and the settings that reach the engine or are rejected."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import LLM, EngineConfig, Lineup
from mini_vllm.runner.loading import EMBEDDED_MODEL
from mini_vllm_labs.cli import generate
from mini_vllm_labs.pictures.terminal.options import open_llm
from tests.cli.conftest import Commands

FAKE_MODEL = ("--lineup", "solution:1-5", "--fake-model")


def test_one_prompt_is_streamed_and_names_the_fake_model(mini_vllm: Commands) -> None:
    result = mini_vllm("generate", "hello", "--max-tokens", 30, *FAKE_MODEL)
    assert "the fake model generates" in result.stderr
    record = json.loads(mini_vllm("generate", "hello", "--max-tokens", 30, "--json", *FAKE_MODEL).stdout)
    assert record["text"] == result.stdout.rstrip("\n")
    assert record["finish_reason"] == "length"
    assert record["num_output_tokens"] == len(record["text"]) == 30


def test_several_prompts_are_numbered_and_json_has_a_line_for_each(mini_vllm: Commands) -> None:
    arguments = ("generate", "one", "two", "--max-tokens", 4, *FAKE_MODEL)
    shown = mini_vllm(*arguments).stdout
    assert ["[1] one" in shown, "[2] two" in shown] == [True, True]
    lines = mini_vllm(*arguments, "--json").stdout.splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["one", "two"]


def test_without_the_chat_template_the_prompt_is_shorter(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("generate", "abc", "--no-chat", "--json", *FAKE_MODEL).stdout)
    assert record["num_prompt_tokens"] == 3


def test_stop_ends_the_text(mini_vllm: Commands) -> None:
    text = json.loads(mini_vllm("generate", "abc", "--json", *FAKE_MODEL).stdout)["text"]
    record = json.loads(mini_vllm("generate", "abc", "--json", "--stop", text[5:8], *FAKE_MODEL).stdout)
    assert record["stop_reason"] == text[5:8]
    assert record["text"] == text[: text.index(text[5:8])]


def test_the_embedded_model_answers(mini_vllm: Commands) -> None:
    shown = mini_vllm("generate", "What is the capital of Norway?", "--system", "You are a helpful assistant.").stdout
    assert shown.strip() == "The capital of Norway is Oslo."


@pytest.mark.parametrize("command", [("generate", "Who?", "--system", "Be short."), ("chat",)])
def test_a_chat_that_the_template_does_not_take_is_refused_in_words(
    mini_vllm: Commands, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shutil.copytree(EMBEDDED_MODEL, tmp_path, dirs_exist_ok=True)
    refused = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}Hello"
    (tmp_path / "chat_template.jinja").write_text(refused)
    if command == ("chat",):
        mini_vllm.monkeypatch.setattr("mini_vllm_labs.cli.chat.typed_lines", lambda prompt: iter(["Who?"]))
        assert "leaves out the text of message 1 (user)" in mini_vllm("chat", "--model", tmp_path).stdout
    else:
        error = mini_vllm(*command, "--model", tmp_path, exit_code=2).stderr
        assert "the model's chat template refuses the messages: no system role" in error


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("switch", ["enforce-eager", "prepack-weights"])
def test_switches_reach_the_engine(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, switch: str, value: bool
) -> None:
    configs = []

    def watched(model: str | None, config: EngineConfig, lineup: Lineup, **others: Any) -> LLM:
        configs.append(config)
        return open_llm(model, config, lineup, **others)

    monkeypatch.setattr(generate, "open_llm", watched)
    mini_vllm("generate", "hello", "--max-tokens", 2, f"--{'' if value else 'no-'}{switch}", *FAKE_MODEL)
    assert [getattr(config, switch.replace("-", "_")) for config in configs] == [value]
