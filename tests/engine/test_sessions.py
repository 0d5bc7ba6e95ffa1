"""Sessions on the fake model: no operation changes a token, forks share blocks, bad files are rejected."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.config import KVTransferConfig
from mini_vllm.core.invariants import check_drained
from mini_vllm.runner.fake_model_runner import LETTERS, fake_continuation
from mini_vllm.session import Session, generate_together
from tests.engine.strategies import configs

CONFIG = EngineConfig(max_model_len=2048, num_gpu_blocks=200, check_invariants=True)
DO = ("go on", "say", "fork", "rewind", "resume")


def fake(config: EngineConfig = CONFIG, lineup: str = "solution:1-5") -> LLM:
    return LLM(config=config, lineup=parse_lineup(lineup), record=True)


def greedy(num_tokens: int) -> SamplingParams:
    return SamplingParams(num_tokens, ignore_eos=True)


def num_computed(llm: LLM, first_step: int) -> int:
    return sum(step["total"] for step in list(llm.engine.recorder.steps)[first_step:])


@settings(max_examples=60, deadline=None)
@given(config=configs(), data=st.data())
def test_sessions_never_change_a_token(
    config: EngineConfig, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each session is compared with one long run: the fake model's continuation of everything in the session."""
    budget = 24 if config.enable_chunked_prefill else 256
    num_blocks = max(config.num_gpu_blocks or 0, 256 // config.block_size)
    config = replace(config, max_model_len=256, num_gpu_blocks=num_blocks, max_num_batched_tokens=budget)
    llm = fake(config, "solution:1-5,solution:7-8")
    sessions, said = [Session(llm)], [[[1, 2, 3, *fake_continuation([1, 2, 3], 2, LETTERS)]]]
    sessions[0].generate([1, 2, 3], greedy(2))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(sessions) - 1))
        session, history = sessions[place], said[place]
        match data.draw(st.sampled_from(DO)):
            case "fork":
                sessions.append(session.fork())
                said.append(list(history))
            case "rewind" if len(history) > 1:
                session.rewind()
                history.pop()
            case "resume":
                path = tmp_path_factory.mktemp("saved") / "session.json"
                session.save(path)
                sessions[place] = Session.resume(fake(config, "solution:1-5,solution:7-8"), path)
            case _:
                added = data.draw(st.lists(st.integers(0, 255), max_size=12))
                output = session.generate(added, greedy(data.draw(st.integers(1, 9))))
                before = [*history[-1], *added]
                num_new = len(output.outputs[0].token_ids)
                history.append([*before, *fake_continuation(before, num_new, LETTERS)])
        assert [one.token_ids for one in sessions] == [one[-1] for one in said]
    for session in sessions:
        check_drained(session.llm.engine.scheduler)


def long_session(llm: LLM) -> Session:
    session = Session(llm)
    session.generate([number % 256 for number in range(992)], greedy(8))
    assert len(session.token_ids) == 1000
    return session


def test_a_fork_of_a_thousand_tokens_computes_at_most_one_block() -> None:
    llm = fake()
    session = long_session(llm)
    for fork in (session.fork(), session.fork().fork()):
        first_step = len(llm.engine.recorder.steps)
        fork.generate("", greedy(1))
        assert 0 < num_computed(llm, first_step) <= 16


def test_eight_forks_together_use_at_most_1_2_times_the_blocks_of_one() -> None:
    llm = fake()
    session, peak = long_session(llm), [0]

    def watch(outputs: object) -> None:
        peak[0] = max(peak[0], len(llm.engine.scheduler.kv.ref_counts()))

    session.fork().generate("", greedy(7), watch)
    one, peak[0] = peak[0], 0
    forks = [session.fork() for _ in range(8)]
    outputs = generate_together(forks, [[number] for number in range(8)], greedy(7), watch)
    assert one == 63
    assert peak[0] == 62 + 8 <= 1.2 * one
    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 8
    assert session.token_ids == forks[0].token_ids[:1000]


@pytest.mark.parametrize("settings", [{}, {"async_scheduling": True}, {"num_gpu_blocks": 70}])
def test_k_and_v_come_back_from_the_disk_after_a_restart(tmp_path: Path, settings: dict[str, Any]) -> None:
    transfer = KVTransferConfig("disk", shared_storage_path=str(tmp_path / "blocks"))
    config = replace(CONFIG, kv_transfer_config=transfer, **settings)
    long_session(fake(config, "solution:1-5,solution:8,solution:10")).save(tmp_path / "session.json")
    llm = fake(config, "solution:1-5,solution:8,solution:10")
    session = Session.resume(llm, tmp_path / "session.json")
    output = session.generate("", greedy(20))
    assert output.metrics.num_cached_tokens == 62 * 16, "all full blocks were loaded, none was computed"
    assert session.token_ids[1000:] == fake_continuation(session.token_ids[:1000], 20, LETTERS)
    other = Session.resume(fake(), tmp_path / "session.json")
    assert other.generate("", greedy(20)).metrics.num_cached_tokens == 0, "without the connector it is computed again"
    assert other.token_ids == session.token_ids


@pytest.mark.parametrize("connector", ["host", "swap"])
def test_other_stores_hold_the_fake_models_blocks_too(connector: Any) -> None:
    transfer = KVTransferConfig(connector)
    llm = fake(replace(CONFIG, num_gpu_blocks=70, kv_transfer_config=transfer), "solution:1-5,solution:10")
    sessions = [Session(llm) for _ in range(3)]
    generate_together(sessions, [[number] * 600 for number in range(3)], greedy(60))
    for number, session in enumerate(sessions):
        assert session.token_ids == [*[number] * 600, *fake_continuation([number] * 600, 60, LETTERS)]


def test_a_turn_that_fails_leaves_the_session_as_it_was() -> None:
    session = long_session(fake())
    before = session.turns[:], session.token_ids[:]
    for call in (
        lambda: session.generate([7] * 2000),
        lambda: session.generate("", greedy(0)),
        lambda: session.chat("hello"),
        lambda: session.rewind(2),
        lambda: session.rewind(0),
        lambda: generate_together([session, session], ["", ""]),
        lambda: generate_together([session, Session(fake())], ["", "x"]),
        lambda: generate_together([], []),
    ):
        with pytest.raises(ValueError, match=r"must|text|different|at most max_model_len"):
            call()
        assert (session.turns, session.token_ids) == before
    with pytest.raises(ZeroDivisionError):
        session.generate("", greedy(5), lambda outputs: print(1 / 0))
    assert (session.turns, session.token_ids) == before
    check_drained(session.llm.engine.scheduler)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("saved") / "session.json"
    session = Session(fake())
    for text in ("once", " upon", ""):
        session.generate(text, greedy(3))
    session.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def signed(content: dict[str, Any]) -> bytes:
    """Return a file whose checksum is correct, whatever its contents."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    return json.dumps(content | {"checksum": sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}).encode()


def with_turn(**changes: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda saved: signed(saved | {"turns": [saved["turns"][0], saved["turns"][1] | changes]})


BAD_FILES: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "empty": (lambda saved: b"", "not a mini-vllm session"),
    "text": (lambda saved: b"a letter", "not a mini-vllm session"),
    "binary": (lambda saved: bytes(range(256)), "not a mini-vllm session"),
    "other JSON": (lambda saved: b'{"turns": []}', "not a mini-vllm session"),
    "a list": (lambda saved: b"[1]", "not a mini-vllm session"),
    "nested": (lambda saved: b"[" * 100_000, "not a mini-vllm session"),
    "nested inside": (lambda saved: signed(saved)[:-1] + b', "x": ' + b"[" * 900 + b"]" * 900 + b"}", "resumed"),
    "changed": (lambda saved: json.dumps(saved | {"turns": []}).encode(), "its checksum is wrong"),
    "no checksum": (lambda saved: json.dumps({**saved, "checksum": None}).encode(), "its checksum is wrong"),
    "version 2": (
        lambda saved: signed(saved | {"version": 2}),
        "the session has version 2; this program reads version 1",
    ),
    "version true": (lambda saved: signed(saved | {"version": True}), "the session has version True"),
    "model": (lambda saved: signed(saved | {"model": "e0ffab"}), "different model.*'e0ffab'.* this engine uses 'fake'"),
    "no turns": (lambda saved: signed(saved | {"turns": 3}), "the session's turns must be a list"),
    "a turn": (lambda saved: signed(saved | {"turns": [None]}), "turn 1 must have the fields"),
    "kept": (with_turn(num_kept=8), "num_kept in turn 2 must be from 0 to 7, got 8"),
    "kept true": (with_turn(num_kept=True), "num_kept in turn 2"),
    "forgotten": (with_turn(num_forgotten=2), "num_forgotten in turn 2 must be from 0 to 1"),
    "tokens": (with_turn(prompt_token_ids=[1000]), "prompt_token_ids in turn 2 must be tokens from 0 to 999"),
    "negative": (with_turn(output_token_ids=[-1]), "output_token_ids in turn 2"),
    "no numbers": (with_turn(output_token_ids=[1.0]), "output_token_ids in turn 2"),
    "a string": (with_turn(output_token_ids="123"), "output_token_ids in turn 2"),
    "answer": (with_turn(answer=None), "the question and the answer in turn 2 must be strings"),
    "mixed": (with_turn(question="why?"), "mixes chat turns with plain text"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_a_message_and_left_unchanged(
    saved: dict[str, Any], tmp_path: Path, name: str
) -> None:
    make, message = BAD_FILES[name]
    path, content = tmp_path / "session.json", make(saved)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"session.json cannot be resumed: .*{message}|{message}"):
        Session.resume(fake(), path)
    with pytest.raises(ValueError, match="not this session's file"):
        Session(fake()).save(path)
    assert path.read_bytes() == content


def test_every_cut_of_a_file_is_noticed(saved: dict[str, Any], tmp_path: Path) -> None:
    path, whole, llm = tmp_path / "session.json", signed(saved), fake()
    path.write_bytes(whole)
    assert len(Session.resume(llm, path).turns) == 3
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(
            ValueError, match="cut off or damaged" if length > 30 else "not a mini-vllm session|cut off"
        ):
            Session.resume(llm, path)


def refuse(*arguments: object, **settings: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_read_and_write_errors_are_reported_and_lose_nothing(
    saved: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm, path = fake(), tmp_path / "session.json"
    path.write_bytes(signed(saved))
    session = Session.resume(llm, path)
    for other, message in ((tmp_path / "none", "No such file"), (path / "below", "Not a directory")):
        with pytest.raises(ValueError, match=f"cannot be read: {message}"):
            Session.resume(llm, other)
    for not_a_file in (tmp_path, Path("/dev/zero")):
        with pytest.raises(ValueError, match="is not a file"):
            Session.resume(llm, not_a_file)
    for other in (tmp_path / "none" / "session.json", path / "below"):
        with pytest.raises(ValueError, match="cannot be saved"):
            session.fork().save(other)
    with pytest.raises(ValueError, match="not this session's file"):
        session.fork().save(path)
    session.generate("", greedy(1))
    for module, name in ((os, "replace"), (os, "fsync"), ("tempfile", "mkstemp")):
        with monkeypatch.context() as patched:
            patched.setattr(*((f"{module}.{name}", refuse) if module == "tempfile" else (module, name, refuse)))
            with pytest.raises(ValueError, match=r"cannot be saved to .*session.json: Permission denied"):
                session.save(path)
        assert path.read_bytes() == signed(saved)
        assert [one.name for one in tmp_path.iterdir()] == ["session.json"]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        with pytest.raises(ValueError, match="cannot be read: Permission denied"):
            Session.resume(llm, path)
    session.save(path)
    assert Session.resume(llm, path).turns == session.turns


def test_a_chat_leaves_its_oldest_turn_out_of_prompts_and_keeps_it_in_the_file(tmp_path: Path) -> None:
    session = Session(fake())
    for question in ("first", "second", "third"):
        session.chat(question, greedy(4))
    assert session.forget_oldest()
    output = session.chat("fourth", greedy(4))
    prompt = session.llm.engine.tokenizer.decode(output.prompt_token_ids)
    assert ["first" in prompt, "second" in prompt] == [False, True]
    session.save(tmp_path / "chat.json")
    resumed = Session.resume(fake(), tmp_path / "chat.json")
    fork = session.fork()
    for one in (session, resumed, fork):
        assert one.token_ids == [*output.prompt_token_ids, *output.outputs[0].token_ids]
        assert (len(one.turns), one.chat_prompt("why?")) == (4, session.chat_prompt("why?"))
    fork.rewind(4)
    assert (fork.token_ids, fork.num_forgotten, fork.forget_oldest()) == ([], 0, False)
