"""When a request ends, and which reason takes precedence when two apply to the same token."""

import pytest

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.stopping import check_stop
from mini_vllm.sampling_params import SamplingParams
from tests.engine.workloads import drain, expect, make_engine, small_config

EOS = 256
STOPPED, FULL = RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED


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


@pytest.mark.parametrize("max_tokens", [1, 2, 4, 5, 30])
@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_takes_precedence_over_a_length_limit(max_tokens: int, include: bool) -> None:
    engine = make_engine(small_config())
    prompt = [1, 2, 3]
    expected = expect(prompt, SamplingParams(max_tokens=8)).text
    params = SamplingParams(max_tokens=max_tokens, stop=(expected[3:5], "?"), include_stop_str_in_output=include)
    engine.add_request("r", prompt, params)
    completion = drain(engine)["r"].outputs[0]
    truth = expect(prompt, params)
    assert truth.finish_reason == ("stop" if max_tokens >= 5 else "length")
    assert (completion.text, completion.token_ids) == (truth.text, truth.token_ids)
    assert (completion.finish_reason, completion.stop_reason) == (truth.finish_reason, truth.stop_reason)


@pytest.mark.parametrize(("include", "num_characters"), [(False, 2), (True, 3)])
def test_a_stop_token_is_in_the_token_ids_but_not_in_the_text_unless_included(
    include: bool, num_characters: int
) -> None:
    engine = make_engine(small_config())
    expected = expect([1, 2, 3], SamplingParams(max_tokens=3))
    stop = expected.token_ids[2]
    engine.add_request("r", [1, 2, 3], SamplingParams(stop_token_ids=(stop,), include_stop_str_in_output=include))
    completion = drain(engine)["r"].outputs[0]
    assert (completion.text, completion.token_ids) == (expected.text[:num_characters], expected.token_ids)
    assert (completion.finish_reason, completion.stop_reason) == ("stop", stop)
