"""Outputs: their order in the step, pieces that add up to the text, one final output, the finish reason."""

import pytest

from mini_vllm import LLM, EngineConfig, parse_lineup
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.stopping import check_stop
from mini_vllm.outputs import RequestOutput
from mini_vllm.sampling_params import SamplingParams
from tests.engine.workloads import expect, make_engine, small_config

LINEUP = parse_lineup("solution:1-5")
EOS = 256
STOPPED, FULL = RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED


def test_outputs_come_in_the_order_of_service() -> None:
    engine = make_engine(small_config())
    for name in ("b", "a", "c"):
        engine.add_request(name, [1, 2], SamplingParams(max_tokens=2))
    assert [[output.request_id for output in engine.step()] for _ in range(2)] == [["b", "a", "c"]] * 2


def test_a_request_that_samples_no_token_has_no_output_in_that_step() -> None:
    engine = make_engine(small_config(max_num_batched_tokens=4))
    engine.add_request("short", [1, 2])
    engine.add_request("long", list(range(9)))
    assert [output.request_id for output in engine.step()] == ["short"]


def test_an_output_does_not_change_when_its_request_continues() -> None:
    engine = make_engine(small_config())
    engine.add_request("r", [1, 2], SamplingParams(max_tokens=3))
    (first,) = engine.step()
    engine.step()
    assert len(first.outputs[0].token_ids) == 1
    assert len(first.outputs[0].text) == 1


def test_a_text_prompt_is_in_the_output_and_a_prompt_of_tokens_has_no_text() -> None:
    engine = make_engine(small_config())
    engine.add_request("text", "né")
    engine.add_request("tokens", [110, 195, 169])
    text, tokens = engine.step()
    assert (text.prompt, text.prompt_token_ids) == ("né", [110, 195, 169])
    assert (tokens.prompt, tokens.prompt_token_ids) == (None, [110, 195, 169])


def llm() -> LLM:
    config = EngineConfig(max_model_len=40, num_gpu_blocks=12, block_size=4, check_invariants=True)
    return LLM(config=config, lineup=LINEUP)


def test_generate_returns_outputs_in_the_order_of_the_prompts() -> None:
    params = [SamplingParams(max_tokens=n) for n in (9, 1, 5)]
    outputs = llm().generate([[1], [2], [3]], params)
    assert [output.prompt_token_ids for output in outputs] == [[1], [2], [3]]
    assert [output.outputs[0].token_ids for output in outputs] == [
        expect([number], p).token_ids for number, p in enumerate(params, start=1)
    ]


def test_generate_takes_one_prompt_and_one_set_of_params() -> None:
    (output,) = llm().generate("hello")
    assert output.outputs[0].text == expect(list(b"hello"), SamplingParams()).text
    first, second = llm().generate(["a", "b"], SamplingParams(max_tokens=2))
    assert len(first.outputs[0].token_ids) == len(second.outputs[0].token_ids) == 2


def test_generate_refuses_all_prompts_if_one_cannot_be_served_and_works_again() -> None:
    model = llm()
    with pytest.raises(ValueError, match="the prompt is empty"):
        model.generate([[1], []])
    assert not model.engine.has_unfinished_requests()
    with pytest.raises(ValueError, match="2 prompts but 1 sampling_params"):
        model.generate(["a", "b"], [SamplingParams()])
    assert model.generate("a")[0].finished


def test_prompts_have_one_priority_and_salt_or_one_each() -> None:
    llm = LLM(config=EngineConfig(policy="priority", max_num_seqs=1), lineup=LINEUP)
    finished: list[str] = []

    def note(outputs: list[RequestOutput]) -> None:
        finished.extend(output.request_id for output in outputs if output.finished)

    prompts, params = [[7, 8, 9] * 12] * 3, SamplingParams(max_tokens=3)
    first = llm.generate(prompts, params, note, priority=[5, 1, 3], cache_salt=["a", "b", "a"])
    assert finished == ["1", "2", "0"]
    assert [output.metrics.num_cached_tokens > 0 for output in first] == [True, False, False]
    assert [output.metrics.num_cached_tokens > 0 for output in llm.generate(prompts, params, cache_salt="c")] == [
        False,
        True,
        True,
    ]
    with pytest.raises(ValueError, match="3 prompts but 2 priorities"):
        llm.generate(prompts, params, priority=[1, 2])


def test_generate_reports_every_step() -> None:
    seen: list[list[str]] = []
    params = SamplingParams(max_tokens=3)
    outputs = llm().generate(["a", "b"], params, on_step=lambda now: seen.append([output.new_text for output in now]))
    assert ["".join(pieces) for pieces in zip(*seen, strict=True)] == [output.outputs[0].text for output in outputs]


def test_chat_applies_the_chat_template_and_calls_generate() -> None:
    (output,) = llm().chat([{"role": "user", "content": "hi"}], SamplingParams(max_tokens=4))
    assert output.outputs[0].text == expect(list(b"user: hi\nassistant: "), SamplingParams(max_tokens=4)).text


@pytest.mark.parametrize(
    ("outputs", "settings", "status", "stop_reason"),
    [
        ([5], {}, None, None),
        ([EOS], {}, STOPPED, None),
        ([5, EOS], {}, STOPPED, None),
        ([EOS, 5], {}, None, None),
        ([EOS], {"ignore_eos": True}, None, None),
        ([EOS], {"ignore_eos": True, "stop_token_ids": (EOS,)}, STOPPED, EOS),
        ([EOS], {"stop_token_ids": (EOS,)}, STOPPED, None),
        ([7], {"stop_token_ids": (5, 7)}, STOPPED, 7),
        ([7, 5, 6], {"stop_token_ids": (8,)}, None, None),
        ([5, 5, 5, 5], {}, FULL, None),
        ([5, 5, 5], {"max_tokens": 3}, FULL, None),
        ([5, 5], {"max_tokens": 3}, None, None),
        ([5, 5, EOS], {"max_tokens": 3}, STOPPED, None),
        ([5, 5, 7], {"max_tokens": 3, "stop_token_ids": (7,)}, STOPPED, 7),
        ([5, 5, EOS], {"max_tokens": 3, "ignore_eos": True}, FULL, None),
        ([EOS], {"min_tokens": 1}, STOPPED, None),
        ([5, EOS], {"min_tokens": 3}, None, None),
        ([5, 7], {"min_tokens": 3, "stop_token_ids": (7,)}, None, None),
        ([5, 5, EOS], {"max_tokens": 3, "min_tokens": 3}, STOPPED, None),
        ([5] * 6, {"max_tokens": 9}, None, None),
        ([5] * 7, {"max_tokens": 9}, FULL, None),
        ([5] * 6 + [EOS], {"max_tokens": 9}, STOPPED, None),
    ],
)
def test_a_stop_token_takes_precedence_over_a_length_limit(
    outputs: list[int], settings: dict[str, object], status: RequestStatus | None, stop_reason: int | None
) -> None:
    params = SamplingParams(**({"max_tokens": 4} | settings))  # type: ignore[arg-type]
    request = Request("r", [EOS, 7, 7], params, frozenset([EOS]))
    request.all_token_ids += outputs
    assert check_stop(request, max_model_len=10) is (status is not None)
    assert request.status is (status or RequestStatus.WAITING)
    assert request.stop_reason == stop_reason
