"""A conversation in the terminal: history, cost per turn, commands, and real text from phase 1 on."""

import re
from copy import copy
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import mini_vllm_labs.cli.chat
from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.core.tokenizer import Message
from mini_vllm.runner.model_tokenizer import ModelTokenizer
from mini_vllm_labs.cli.chat import Conversation
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.runs.traces.run_state import RunState

STORY = "Tell me a story about Mina and a kite."
TURN = re.compile(r"\[(\d+) prompt tokens, (\d+) of them from the cache; (\d+) output tokens in (\d+) steps")


def talk(*lines: str, lineup: str = "solution", arguments: tuple[str, ...] = ()) -> str:
    result = CliRunner().invoke(
        app, ["chat", "--lineup", lineup, "--max-tokens", "24", *arguments], input="".join(f"{x}\n" for x in lines)
    )
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_each_turn_resends_the_conversation_and_finds_it_in_the_cache() -> None:
    turns = [tuple(map(int, turn)) for turn in TURN.findall(talk(STORY, "And then?", "And then?"))]
    assert len(turns) == 3
    assert [prompt for prompt, *_ in turns] == sorted({prompt for prompt, *_ in turns}), "the history grows"
    assert turns[0][1] == 0
    assert all(cached >= turns[number][0] // 16 * 16 for number, (_, cached, *_) in enumerate(turns[1:]))


def test_electives_are_used_when_asked_for_and_offered_when_not() -> None:
    plain = talk(STORY, lineup="solution:1-8")
    drafted = talk(STORY, lineup="solution:1-8", arguments=("--speculative-method", "draft_model"))
    assert "turned off: --speculative-method ngram (phase 7), --async-scheduling (phase 8)." in plain
    assert "turned off: --async-scheduling (phase 8)." in drafted
    assert int(TURN.findall(drafted)[0][3]) < int(TURN.findall(plain)[0][3]), "drafts save steps"


def test_the_answers_are_resent_with_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[tuple[str, str]]] = []
    template = ModelTokenizer.apply_chat_template

    def watched(self: ModelTokenizer, messages: list[Message]) -> list[int]:
        rendered = [(message["role"], message["content"]) for message in messages]
        sent.extend([rendered] if rendered not in sent else [])
        return template(self, messages)

    monkeypatch.setattr(ModelTokenizer, "apply_chat_template", watched)
    shown = talk(STORY, "And then?")
    assert [[role for role, _ in messages] for messages in sent] == [["user"], ["user", "assistant", "user"]]
    assert " ".join(sent[1][1][1].split()) in shown


def test_the_drawing_follows_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=StringIO(), force_terminal=True, width=100)
    config = EngineConfig(max_model_len=256, num_gpu_blocks=20)
    conversation = Conversation(LLM(config=config, record=True), console, SamplingParams(max_tokens=4), show=True)
    drawn: list[RunState] = []

    def render(state: RunState, *rest: object) -> str:
        drawn.append(copy(state))
        return ""

    monkeypatch.setattr(mini_vllm_labs.cli.chat, "render_step", render)
    conversation.run(iter([STORY, "And then?"]))
    steps = conversation.llm.engine.recorder.steps
    assert [state.record for state in drawn] == list(steps)
    assert drawn[-1].info.titles == {"0": STORY, "1": "And then?"}
    afresh = RunState(drawn[-1].info)
    for record in steps:
        afresh.advance(record)
    assert drawn[-1].num_computed_tokens == afresh.num_computed_tokens


def test_a_new_conversation_forgets_the_last_one() -> None:
    first, second = TURN.findall(talk(STORY, "/new", STORY))
    assert first[0] == second[0]


def test_a_conversation_is_rewound_forked_switched_saved_and_resumed(tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    shown = talk(
        STORY,
        "And then?",
        "/rewind",
        "And then?",
        "/fork",
        "What is 3 plus 4?",
        "/switch 1",
        "And then?",
        f"/save {file}",
    )
    *_, before, again, forked, switched = TURN.findall(shown)
    assert before[0] == again[0], "the turn that was taken back is asked again"
    assert forked[0] != switched[0]
    assert "1 turn, " in shown
    assert "A fork of conversation 1: number 2." in shown
    saved = rf"3turns,\d+tokenssavedto{file};KandVwillbecomputedagain"  # a long path is broken across lines
    assert re.search(saved, re.sub(r"\s", "", shown))
    resumed = talk("Why?", arguments=("--resume", str(file)))
    assert "3 turns, " in resumed
    straight = talk(STORY, "And then?", "And then?", "Why?")
    assert resumed.partition("you: Why?")[2].partition("[")[0] == straight.partition("you: Why?")[2].partition("[")[0]


def test_what_a_command_cannot_do_is_said_and_the_conversation_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("a text of my own", encoding="utf-8")
    commands = [
        "/rewind 2",
        "/rewind x",
        "/switch 2",
        "/save",
        f"/save {tmp_path / 'mine.txt'}",
        "/frok",
        "word " * 2000,
    ]
    shown = talk(STORY, *commands, "And then?")
    assert len(TURN.findall(shown)) == 2
    unbroken = re.sub(r"\s", "", shown)  # a long path is broken across lines, wherever the line ends
    for said in (
        "/rewind N: N must be from 1 to 1, got 2",
        "/rewind N: N must be from 1 to 1, got x",
        "/switch N: N must be from 1 to 1, got 2",
        "/save needs a file name",
        "mine.txt exists and is not this session's file",
        "unknown command /frok",
        "max_model_len",
    ):
        assert re.sub(r"\s", "", said) in unbroken
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "a text of my own"


def test_a_file_that_is_no_session_ends_the_command_in_words(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["chat", "--lineup", "solution", "--resume", str(tmp_path / "none.json")])
    assert result.exit_code == 2
    assert "none.json cannot be read: No such file or directory" in " ".join(result.output.split())


def test_quit_ends_it_and_empty_lines_are_no_turns() -> None:
    assert len(TURN.findall(talk("", STORY, "/quit", STORY))) == 1


def test_a_conversation_that_no_longer_fits_loses_its_oldest_turn() -> None:
    shown = talk(*["word " * 150] * 8)
    assert len(TURN.findall(shown)) == 8
    assert "The oldest turn no longer fits and is left out." in shown


@pytest.mark.parametrize("lineup", ["solution:1", "solution:1-3", "solution:1-5"])
def test_phases_before_the_sixth_give_the_same_real_text(lineup: str) -> None:
    whole, part = talk(STORY), talk(STORY, lineup=lineup)
    story = whole.partition("Mina and a kite. ")[2].partition(" [")[0]
    assert len(story.split()) > 10
    assert story in part
    assert "a plain forward pass without a KV cache stands in for it" in part


def test_the_fake_model_is_there_when_it_is_asked_for() -> None:
    assert "letters without meaning" in talk("hello", lineup="solution:1", arguments=("--fake-model",))


def test_the_plain_forward_pass_samples_repeatably() -> None:
    params = SamplingParams(max_tokens=8, temperature=0.9, top_k=20, top_p=0.9, seed=5)
    texts = [
        LLM(config=EngineConfig(max_model_len=64, num_gpu_blocks=20), lineup=parse_lineup("solution:1-5"), dense=True)
        .generate("Once upon a time", params)[0]
        .outputs[0]
        .text
        for _ in range(2)
    ]
    assert texts[0] == texts[1] != ""
