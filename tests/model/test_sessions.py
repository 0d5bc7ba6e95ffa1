"""Sessions on the embedded model: greedy text matches one long run's, and K and V are reloaded from disk."""

from pathlib import Path

import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.config import KVTransferConfig
from mini_vllm.session import Session, generate_together

PROMPT = "Once upon a time there was a girl named Mina. " * 3
QUESTIONS = ("Tell me a story about Mina and a kite.", "And then?", "What is 3 plus 4?")


def engine(path: Path | None = None, dtype: str = "float32") -> LLM:
    transfer = None if path is None else KVTransferConfig("disk", shared_storage_path=str(path))
    config = EngineConfig(num_gpu_blocks=200, kv_transfer_config=transfer, dtype=dtype, check_invariants=True)
    return LLM(config=config, lineup=parse_lineup("solution:1-10"))


def greedy(num_tokens: int) -> SamplingParams:
    return SamplingParams(num_tokens, ignore_eos=True)


@pytest.fixture(scope="module")
def straight() -> list[int]:
    (output,) = engine().generate(PROMPT, greedy(60))
    return [*output.prompt_token_ids, *output.outputs[0].token_ids]


def test_turns_forks_and_a_restart_give_the_tokens_of_one_long_run(straight: list[int], tmp_path: Path) -> None:
    session = Session(engine(tmp_path))
    session.generate(PROMPT, greedy(23))
    generate_together([session.fork() for _ in range(4)], ["", " And", " Then", ""], greedy(9))
    session.generate("", greedy(17))
    session.save(tmp_path / "session.json")
    num_computed = len(session.token_ids) - 1
    resumed = Session.resume(engine(tmp_path), tmp_path / "session.json")
    output = resumed.generate("", greedy(20))
    assert resumed.token_ids == straight
    assert output.metrics.num_cached_tokens == num_computed // 16 * 16 > 0
    resumed.rewind(2)
    resumed.generate("", greedy(37))
    assert resumed.token_ids == straight


def test_a_chat_that_was_rewound_forked_and_resumed_answers_as_one_that_was_not(tmp_path: Path) -> None:
    chat = Session(engine())
    expected = [chat.chat(question, SamplingParams(40)).outputs[0].text for question in QUESTIONS]
    session = Session(engine(tmp_path))
    answers = [session.chat(QUESTIONS[0], SamplingParams(40)).outputs[0].text]
    session.chat("Why?")
    session.rewind()
    session.fork().chat("Who?")
    answers.append(session.chat(QUESTIONS[1], SamplingParams(40)).outputs[0].text)
    session.save(tmp_path / "chat.json")
    resumed = Session.resume(engine(tmp_path), tmp_path / "chat.json")
    assert [*answers, resumed.chat(QUESTIONS[2], SamplingParams(40)).outputs[0].text] == expected
    assert resumed.turns == chat.turns


def test_a_session_of_another_model_or_dtype_is_refused(tmp_path: Path) -> None:
    session = Session(engine())
    session.generate("Mina", greedy(2))
    session.save(tmp_path / "session.json")
    for llm in (LLM(lineup=parse_lineup("solution:1-5")), engine(dtype="bfloat16")):
        with pytest.raises(ValueError, match="different model"):
            Session.resume(llm, tmp_path / "session.json")
    dense = LLM(lineup=parse_lineup("solution:1-5"), dense=True)
    assert Session.resume(dense, tmp_path / "session.json").token_ids == session.token_ids
