"""A client's own name for its request, `X-Request-Id`, comes back in answers, bills and refusals."""

import httpx
import pytest

from serving.server import RunningServer
from tests.serving.running import CHAT, COMPLETION, HELLO, MODEL

LONG = {"model": MODEL, "messages": HELLO, "max_tokens": 1500, "ignore_eos": True, "stream": True}


def named(server: RunningServer, name: str, path: str = COMPLETION, **fields: object) -> httpx.Response:
    asks = {"messages": HELLO} if path == CHAT else {"prompt": "abcd"}
    body = {"model": MODEL, **asks, "max_tokens": 3, **fields}
    return httpx.post(server.address + path, json=body, headers={b"X-Request-Id": name.encode("latin-1")})


@pytest.mark.parametrize(
    ("path", "prefix", "kind"), [(CHAT, "chatcmpl", "chat.completion"), (COMPLETION, "cmpl", "text_completion")]
)
def test_an_answer_s_id_ends_with_the_name(fake_server: RunningServer, path: str, prefix: str, kind: str) -> None:
    answer = named(fake_server, "mina-1.a:b_C", path).json()
    assert (answer["id"], answer["object"]) == (f"{prefix}-mina-1.a:b_C", kind)
    chunks = named(fake_server, "mina-2", path, stream=True).text.split("\n\n")
    assert sum(f'"id":"{prefix}-mina-2"' in chunk for chunk in chunks) == len(chunks) - 2, "all but [DONE] and the end"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a?b", "a%20b", "<b>", "a" * 129, "kite\u00e9"])
def test_a_name_that_could_not_stand_in_a_url_is_refused(fake_server: RunningServer, name: str) -> None:
    answer = named(fake_server, name)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "X-Request-Id")
    assert "1 to 128 letters" in error["message"]


def test_a_name_in_use_is_refused_and_its_request_goes_on(fake_server: RunningServer) -> None:
    url, headers = fake_server.address + CHAT, {"X-Request-Id": "twice"}
    with httpx.stream("POST", url, json=LONG, headers=headers) as stream:
        lines = stream.iter_lines()
        next(lines)
        refused = named(fake_server, "twice", CHAT)
        assert refused.status_code == 409, "OpenAI's client tries again"
        assert refused.json()["error"]["param"] == "X-Request-Id"
        assert "'chatcmpl-twice-0'" in refused.json()["error"]["message"]
        assert named(fake_server, "once", CHAT).status_code == 200
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert named(fake_server, "twice", CHAT).status_code == 200, "a name is free again after its request"
