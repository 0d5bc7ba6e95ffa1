"""`mini-vllm bench serve-faults`: our server stands it, and what does not hold is found."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import cast

import pytest

from bench.cli import serve_faults
from bench.serve.answer import Answer
from bench.serve.faults import site as sites
from bench.serve.faults.part import Part
from bench.serve.faults.questions import Question, Questions
from bench.serve.faults.raw import RawAnswer
from bench.serve.faults.site import Site, gauge
from bench.serve.faults.sizes import QUICK
from bench.serve.faults.soak import growth_of
from bench.serve.faults.tally import Tally
from bench.serve.server_process import Resources, ServerProcess
from bench.serve.text_requests import TextRequest
from tests.cli.conftest import Commands

QUESTION = Question(TextRequest(0.0, "hello", 4), "hello there")
HELD = Resources(2**20, 4, 7)


def test_our_server_stands_everything(mini_vllm: Commands) -> None:
    result = mini_vllm("bench", "serve-faults", "--quick", "--lineup", "solution:1-5", "--json")
    parts = {part["name"]: part for part in json.loads(result.stdout)["parts"]}
    assert [part["problems"] for part in parts.values()] == [[]] * 9
    for part in parts.values():
        tally = part["tally"]
        ends = (tally[end] for end in ("completed", "refused", "aborted", "failed"))
        assert tally["requests"] == sum(ends)
        assert tally["completed"] == tally["equal"] > 0
    assert parts["60 streams, 30% hang up"]["tally"]["aborted"] == 18
    assert parts["malformed requests"]["tally"]["refused"] == 25
    assert parts["bodies of 8 MiB"]["tally"]["refused"] == 4
    assert parts["SIGTERM in the middle"]["tally"]["refused"] == 10
    assert parts["SIGTERM in the middle"]["after"] is None
    assert parts["a runner that raises every 50 steps"]["tally"]["failed"] > 0


def test_what_does_not_hold_is_shown_and_fails_the_command(
    mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = Tally(requests=3, completed=2, equal=1)
    tally.problems["an answer differs"] += 1
    part = Part("a part", tally, 1.5, HELD, HELD, 2**21, ["num_requests_running is 1"])
    monkeypatch.setattr(serve_faults, "run_parts", lambda *arguments: [part])
    monkeypatch.setenv("COLUMNS", "80")
    shown = mini_vllm("bench", "serve-faults", "--lineup", "solution:1-5", exit_code=1).output
    assert "does not hold: 1 x an answer differs" in shown
    assert "does not hold: num_requests_running is 1" in shown
    [row] = [line for line in shown.splitlines() if " 1.5 " in line]
    assert row.split() == ["3", "2", "1", "0", "0", "0", "1.5", "1", "1", "4", "4", "7", "7"]


def test_wrong_answers_and_wrong_ends_are_problems() -> None:
    tally = Tally()
    tally.take(QUESTION, Answer(text="hello there"))
    tally.leave(QUESTION, "hello")
    tally.refuse("nonsense", True, "HTTP 400")
    tally.take(QUESTION, Answer(error="HTTP 500"), may_fail=True)
    assert (tally.requests, tally.completed, tally.aborted, tally.refused, tally.failed) == (4, 1, 1, 1, 1)
    assert not tally.problems
    tally.take(QUESTION, Answer(text="hello you"))
    tally.leave(QUESTION, "there")
    tally.refuse("nonsense", False, "HTTP 200")
    tally.take(QUESTION, Answer(error="HTTP 500"))
    assert list(tally.problems) == [
        "an answer differs: 'hello you' and not 'hello there'",
        "a part of an answer differs: 'there'",
        "nonsense: HTTP 200",
        "HTTP 500",
    ]
    assert (tally.completed, tally.equal) == (2, 1)


@dataclass
class StandIn:
    """A server's figures without a server."""

    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0
    held: Resources = field(default_factory=lambda: HELD)

    def get(self, path: str) -> str:
        assert path == "/metrics"
        labels = '{model_name="mini-vllm",engine="0"}'
        gauges = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": self.usage,
        }
        return "".join(f"# TYPE vllm:{name} gauge\nvllm:{name}{labels} {value}\n" for name, value in gauges.items())

    def resources(self) -> Resources:
        return self.held


@pytest.mark.parametrize(
    ("server", "left"),
    [
        (StandIn(), []),
        (StandIn(running=1.0), ["num_requests_running is 1"]),
        (StandIn(waiting=2.0, usage=0.25), ["num_requests_waiting is 2", "kv_cache_usage_perc is 0.25"]),
        (StandIn(held=Resources(2**30, 5, 7)), ["5 threads, 4 before"]),
        (StandIn(held=Resources(2**30, 3, 9)), ["9 open files, 7 before"]),
    ],
)
def test_what_a_server_still_holds_is_found(server: StandIn, left: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "SETTLE_SECONDS", 0.0)
    site = Site(cast(ServerProcess, server), Questions([], [], []), QUICK, baseline=HELD)
    assert asyncio.run(site.settle()) == left


def test_a_metric_that_is_not_there_is_no_zero() -> None:
    assert gauge("vllm:a 2.5\n", "a") == 2.5
    with pytest.raises(ValueError, match="/metrics has no vllm:b"):
        gauge("vllm:a 2.5\n", "b")


def test_memory_that_grows_is_told_from_memory_that_wavers() -> None:
    flat = [(float(n), 1e9 + 1e6 * (n % 7)) for n in range(100)]
    leaking = [(time, rss + 1e6 * time) for time, rss in flat]
    warming_up = [(time, rss + 1e8 * min(time, 40)) for time, rss in flat]
    assert abs(growth_of(flat)) < 0.001
    assert growth_of(leaking) == pytest.approx(0.05, rel=0.1)
    assert abs(growth_of(warming_up)) < 0.001


def test_an_error_is_openais_only_with_all_its_fields() -> None:
    whole = {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    assert RawAnswer(400, json.dumps({"error": whole}).encode()).is_openai_error
    for error in (b"", b"no", b"[]", b'{"detail": "no"}', b'{"error": "no"}', b'{"error": {"message": "no"}}'):
        assert not RawAnswer(400, error).is_openai_error
