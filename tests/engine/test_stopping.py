"""When a request ends, and which reason takes precedence when two apply to the same token."""

import pytest

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.stopping import check_stop
from mini_vllm.sampling_params import SamplingParams

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
