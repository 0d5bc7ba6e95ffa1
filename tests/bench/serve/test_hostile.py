"""`mini-vllm bench serve --hostile`: one client's costly requests, and the gaps they cause in another client's
stream."""

import json

import pytest

from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.serve import hostile
from mini_vllm_labs.bench.serve.hostile import completion, hostile_requests
from tests.bench.serve.stub import GAP, Stub
from tests.cli.conftest import Commands


def test_the_gaps_of_a_stream_are_measured(mini_vllm: Commands, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = {"refused": completion(prompt="full"), "endless": completion(prompt="silent")}
    monkeypatch.setattr(hostile, "hostile_requests", lambda: requests)
    monkeypatch.setattr(hostile, "PATIENCE", 0.5)
    options = ("--base-url", stub.endpoint.base_url, "--model", "stub", "--json")
    [record] = json.loads(mini_vllm("bench", "serve", "--hostile", *options).stdout)["cases"]
    case = Case.read(record)
    assert list(case.sides) == ["nothing", *requests]
    assert all(side.median > 900 * GAP for side in case.sides.values())
    assert case.notes == ["refused: HTTP 429: the queue is full", "endless: hung up after 0.5 s"]


def test_the_requests_are_many_and_small_enough_to_send() -> None:
    sizes = {name: len(json.dumps(body)) for name, (_, body) in hostile_requests().items()}
    assert len(sizes) >= 20
    assert max(sizes.values()) < 4 * 1024 * 1024
