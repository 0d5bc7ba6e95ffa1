"""Tests which replica gets a request (round robin, by load or by known prefix), and what counts as a prefix."""

import asyncio
import os
import random
import signal
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from mini_vllm_labs.serving.router.front import create_front, merged_page
from mini_vllm_labs.serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router, chained, prefix_of
from mini_vllm_labs.serving.router.replicas import Replica, Replicas
from mini_vllm_labs.serving.settings import ServerSettings

SYSTEM = {"role": "system", "content": "You are a helpful assistant. " * 8}
IDLE = {0: 0, 1: 0, 2: 0}


def test_turns_and_loads_count_only_for_replicas_that_can_be_reached() -> None:
    router = RoundRobin()
    assert [router.choose((), IDLE) for _ in range(5)] == [0, 1, 2, 0, 1]
    assert {router.choose((), {0: 9, 2: 0}) for _ in range(4)} == {0, 2}
    assert LeastLoaded().choose((), {0: 3, 1: 1, 2: 2}) == 1
    assert LeastLoaded().choose((), {0: 3, 2: 3}) == 0


def test_a_key_covers_all_blocks_before_it() -> None:
    one, other = chained(["a", "b", "c"]), chained(["x", "b", "c"])
    assert chained(["a", "b"]) == one[:2]
    assert not set(one) & set(other)


def test_a_conversation_stays_where_its_beginning_is() -> None:
    router = PrefixAware()
    turns = [chained(list("system")[: n + 2]) for n in range(4)]
    first = router.choose(turns[0], {0: 2, 1: 0, 2: 1})
    assert first == 1, "no replica knows it: the least loaded one"
    for turn in turns[1:]:
        assert router.choose(turn, {0: 0, 1: 9, 2: 0}) == first
    assert router.num_known_blocks(chained(list("system")), first) == 5


def test_the_longest_prefix_counts_and_of_equal_ones_the_load() -> None:
    router = PrefixAware()
    router.choose(chained(["a", "b"]), {0: 0})
    router.choose(chained(["a", "b", "c"]), {1: 0})
    assert router.choose(chained(["a", "b", "c", "d"]), {0: 0, 1: 9, 2: 0}) == 1
    assert router.choose(chained(["a", "b", "x"]), {0: 1, 1: 0, 2: 0}) == 1
    assert router.choose(chained(["z"]), {0: 4, 1: 5, 2: 3}) == 2


def test_a_replica_with_far_more_to_do_is_passed_over() -> None:
    router = PrefixAware(max_imbalance=4)
    router.choose(chained(["a"]), {0: 0})
    assert router.choose(chained(["a"]), {0: 4, 1: 0}) == 0
    assert router.choose(chained(["a"]), {0: 5, 1: 0}) == 1
    assert router.choose(chained(["a"]), {0: 4, 1: 3}) == 1, "now both know it"


def test_a_restarted_replica_knows_no_blocks() -> None:
    router = PrefixAware()
    router.choose(chained(["a"]), {1: 0})
    router.forget(1)
    router.forget(2)
    assert router.num_known_blocks(chained(["a"]), 1) == 0
    assert router.choose(chained(["a"]), IDLE) == 0


def test_forgetting_one_replica_keeps_the_blocks_of_the_others() -> None:
    router = PrefixAware()
    for replica, text in enumerate("abc"):
        router.choose(chained([text, "more"]), {replica: 0})
    router.forget(1)
    assert [router.num_known_blocks(chained([text, "more"]), replica) for replica, text in enumerate("abc")] == [
        2,
        0,
        2,
    ]
    assert router.choose(chained(["c", "more"]), {0: 0, 1: 0, 2: 5}) == 2


def test_each_replica_knows_as_many_blocks_as_the_limit_says() -> None:
    router = PrefixAware(max_blocks_known=3)
    for replica in range(4):
        router.choose(chained([replica, "b", "c"]), {replica: 0})
    assert [router.num_known_blocks(chained([replica, "b", "c"]), replica) for replica in range(4)] == [3] * 4


def test_turns_continue_when_a_replica_ends_or_starts() -> None:
    router = RoundRobin()
    chosen = [router.choose((), IDLE), router.choose((), {0: 0, 2: 0}), router.choose((), IDLE)]
    chosen += [router.choose((), dict.fromkeys(range(5), 0)) for _ in range(2)]
    assert chosen == [0, 2, 2, 3, 4]


class CountedKey(int):
    """A key that counts how often keys are compared."""

    num_compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.num_compared += 1
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


def test_a_choice_looks_each_block_up_once_however_many_are_known() -> None:
    router = PrefixAware()
    known = range(1, 3000)
    router.choose(list(map(CountedKey, known)), {0: 0})
    router.choose(list(map(CountedKey, known)), {1: 0})
    CountedKey.num_compared = 0
    assert router.choose([*map(CountedKey, range(2900, 2950)), CountedKey(0)], {0: 1, 1: 0, 2: 3}) == 1
    assert CountedKey.num_compared <= 50 * 10


def test_the_same_text_from_a_user_and_from_an_assistant_is_another_prompt() -> None:
    text = "a line of text, " * 20
    one, other = (prefix_of({"messages": [{"role": role, "content": text}]}) for role in ("user", "assistant"))
    assert len(one) > 3
    assert not set(one) & set(other)
    assert not set(one) & set(prefix_of({"messages": [{"role": "us", "content": f"er {text}"}]}))


def test_the_least_recently_used_blocks_are_forgotten_last_blocks_first() -> None:
    router = PrefixAware(max_blocks_known=4)
    old, new = chained(["o1", "o2", "o3"]), chained(["n1", "n2"])
    router.choose(old, {0: 0})
    router.choose(new, {0: 0})
    assert router.num_known_blocks(old, 0) == 2
    assert router.num_known_blocks(new, 0) == 2
    router.choose(old[:1], {0: 0})
    router.choose(chained(["m1", "m2"]), {0: 0})
    assert (router.num_known_blocks(old, 0), router.num_known_blocks(new, 0)) == (1, 1)


@pytest.mark.parametrize("router", [RoundRobin(), LeastLoaded(), PrefixAware(max_blocks_known=50, max_imbalance=3)])
def test_only_replicas_that_can_be_reached_are_chosen(router: Router) -> None:
    rng = random.Random(0)
    for _ in range(500):
        loads = {replica: rng.randrange(9) for replica in rng.sample(range(5), rng.randint(1, 5))}
        prefix = chained([rng.randrange(3) for _ in range(rng.randrange(6))])
        assert router.choose(prefix, loads) in loads
        if rng.random() < 0.1:
            router.forget(rng.randrange(5))


def chat(*contents: str, **fields: object) -> dict[str, object]:
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return {"messages": [SYSTEM, *turns], **fields}


def shared(one: list[int], other: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_chats_share_the_blocks_of_what_they_have_in_common() -> None:
    first, second = prefix_of(chat("x" * 200)), prefix_of(chat("x" * 200, "an answer", "y" * 300))
    assert second[: len(first)] == first, "a turn begins with the whole conversation before it"
    assert (len(first), len(second) > len(first) + 4) == (6, True)
    assert shared(prefix_of(chat("a" * 300)), prefix_of(chat("b" * 300))) == 3


@pytest.mark.parametrize("make", [lambda text: text, lambda text: [text, "another"], lambda text: list(text.encode())])
def test_prompts_as_text_or_tokens(make: object) -> None:
    one, longer = (prefix_of({"prompt": make("word " * n)}) for n in (40, 60))  # type: ignore[operator]
    assert one
    assert longer[: len(one)] == one
    assert shared(one, prefix_of({"prompt": make("other " * 40)})) == 0  # type: ignore[operator]


def test_salts_keep_prompts_apart() -> None:
    plain, salted = (prefix_of(chat("a" * 300, cache_salt=salt)) for salt in (None, "blue"))
    assert len(plain) == len(salted)
    assert not set(plain) & set(salted)


def test_a_body_without_a_prompt_has_no_prefix() -> None:
    bodies: list[object] = [None, 3, [], {}, {"prompt": 3}, {"prompt": []}, {"prompt": [[]]}, {"prompt": None}]
    bodies += [{"prompt": [1.5] * 40}]
    bodies += [{"messages": messages} for messages in ("text", [3, None], [{"content": [{"type": "text"}]}])]
    assert not any(prefix_of(body) for body in [*bodies, {"prompt": None, "cache_salt": {}}])


def test_the_metrics_of_all_replicas_are_one_page() -> None:
    page = (
        "# HELP vllm:prompt_tokens_total Tokens.\n# TYPE vllm:prompt_tokens_total counter\n"
        'vllm:prompt_tokens_total{engine="0",model_name="m"} %d.0\n'
        "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'
    )
    lines = merged_page({0: page % 5, 2: page % 7}).decode().splitlines()
    assert 'vllm:prompt_tokens_total{engine="0",model_name="m"} 5.0' in lines
    assert 'vllm:prompt_tokens_total{engine="2",model_name="m"} 7.0' in lines
    assert sum(line.startswith("# TYPE vllm:prompt_tokens_total counter") for line in lines) == 1
    assert sum("num_requests_running{" in line for line in lines) == 2


def test_the_first_silence_of_a_replica_is_reported_and_the_second_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    signals: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(number))
    monkeypatch.setattr(os, "killpg", lambda pid, number: signals.append(number))
    replica = Replica(0, SimpleNamespace(pid=7, kill=lambda: signals.append("kill")), "http://silent")  # type: ignore[arg-type]
    assert (replica.note_silence(), signals) == ("", [signal.SIGUSR1])
    assert "has not answered for 4 seconds" in replica.notice
    assert "has not answered for 8 seconds" in replica.note_silence()
    assert signals[1:] == [signal.SIGKILL, "kill"]


def test_requests_refused_by_an_ended_engine_go_to_another_one() -> None:
    def fine() -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b'{"id":"x"}'))

    def answer(request: httpx.Request) -> httpx.Response:
        told = {"error": {"message": "the engine has stopped: line 3", "code": "engine_dead"}}
        return httpx.Response(503, json=told) if request.url.host == "dead" else fine()

    process: Any = SimpleNamespace(is_alive=lambda: True, exitcode=None)
    replicas: Any = Replicas.__new__(Replicas)
    replicas.settings, replicas.is_shutting_down = ServerSettings(), False
    replicas.all = [Replica(0, process, "http://dead"), Replica(1, process, "http://alive")]
    app = create_front(replicas, RoundRobin())
    front = app.state.front
    front.client = httpx.AsyncClient(transport=httpx.MockTransport(answer))

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answers = [await client.post("/v1/completions", json={"prompt": "x"}) for _ in range(3)]
            assert [one.json() for one in answers] == [{"id": "x"}] * 3
            assert [replica.num_unfinished for replica in replicas.all] == [0, 0]
            health = (await client.get("/health")).json()
            assert health["replicas"] == {"0": False, "1": True}
            assert health["message"] == "replica 0: the engine has stopped: line 3"
            replicas.all.pop()
            refused = await client.post("/v1/completions", json={"prompt": "x"})
            assert (refused.status_code, "line 3" in refused.text) == (503, True)

    asyncio.run(ask())
