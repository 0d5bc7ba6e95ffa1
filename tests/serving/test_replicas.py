"""Several engine processes behind one address: routing, identical texts, a replica that dies, and the shutdown."""

import os
import signal
import subprocess
from collections.abc import Iterator

import httpx
import openai
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from tests.serving.running import PATIENCE, serve_command, wait_until

SYSTEM = {"role": "system", "content": "You are a careful assistant. " * 12}
JSON = {"Content-Type": "application/json"}


class Fleet:
    """A running command with two replicas."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.process, self.address = process, address
        self.client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=PATIENCE)

    def chat(self, content: str, max_tokens: int = 8) -> str:
        answer = self.client.chat.completions.create(
            model="mini-vllm",
            messages=[SYSTEM, {"role": "user", "content": content}],  # type: ignore[list-item]
            max_tokens=max_tokens,
            temperature=0,
        )
        return answer.choices[0].message.content or ""

    def counts(self, name: str) -> dict[str, float]:
        """Return a metric from each replica."""
        page = httpx.get(f"{self.address}/metrics").text
        samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
        return {sample.labels["engine"]: sample.value for sample in samples if sample.name == name}

    def engines(self) -> list[psutil.Process]:
        """Return the replicas' processes, in order."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return sorted((one for one in found if "spawn_main" in " ".join(one.cmdline())), key=psutil.Process.create_time)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with serve_command("--data-parallel-size", "2", "--shutdown-timeout", "20") as command:
        fleet = Fleet(*command)
        yield fleet
        for process in fleet.engines() if fleet.process.poll() is None else []:
            process.kill()
        fleet.client.close()


def test_a_conversation_stays_with_its_replica_and_says_what_one_engine_says(fleet: Fleet) -> None:
    questions = [f"question {number} " * 20 for number in range(3)]
    llm = LLM(config=EngineConfig(), lineup=parse_lineup("solution:1-5"))
    chats = [[SYSTEM, {"role": "user", "content": question}] for question in questions]
    offline = [output.outputs[0].text for output in llm.chat(chats, SamplingParams(8))]
    assert [fleet.chat(question) for question in questions] == offline
    assert [fleet.chat(question) for question in questions] == offline
    served = fleet.counts("vllm:request_success_total")
    assert set(served) == {"0", "1"}
    prompts, hits = fleet.counts("vllm:prompt_tokens_total"), fleet.counts("vllm:prefix_cache_hits_total")
    assert sum(hits.values()) > 0.5 * sum(prompts.values()), "the second round, and the system prompt of the first"
    health = httpx.get(f"{fleet.address}/health").json()
    assert health == {"status": "ok", "replicas": {"0": True, "1": True}}


def test_errors_and_other_routes_are_those_of_a_replica(fleet: Fleet) -> None:
    assert [model.id for model in fleet.client.models.list()] == ["mini-vllm"]
    assert httpx.post(f"{fleet.address}/tokenize", json={"prompt": "abc"}).json()["count"] == 3
    with pytest.raises(openai.BadRequestError) as refused:
        fleet.client.chat.completions.create(model="mini-vllm", messages=[], max_tokens=2)
    assert refused.value.param == "messages"
    assert httpx.post(f"{fleet.address}/v1/completions", content=b"{", headers=JSON).status_code == 400
    assert httpx.post(f"{fleet.address}/v1/completions", content=b" " * 5_000_000, headers=JSON).status_code == 413


def test_if_a_replica_dies_its_streams_say_so_and_the_other_goes_on(fleet: Fleet) -> None:
    stream = fleet.client.completions.create(model="mini-vllm", prompt="abc", max_tokens=1900, n=60, stream=True)
    next(stream)
    running = fleet.counts("vllm:num_requests_running")
    busy = max(running, key=running.__getitem__)
    fleet.engines()[int(busy)].kill()
    with pytest.raises(openai.APIError, match=f"replica {busy} has ended in the middle of the answer"):
        list(stream)
    assert len({fleet.chat(f"{number} " * 100) for number in range(4)}) == 4
    assert httpx.get(f"{fleet.address}/health").json()["replicas"][busy] is False


def test_a_page_gets_the_engine_that_it_names(fleet: Fleet) -> None:
    for _ in range(3):
        body = {"prompt": "abc", "max_tokens": 2}
        assert httpx.post(f"{fleet.address}/v1/completions?engine=1", json=body).status_code == 200
    assert fleet.counts("vllm:prompt_tokens_total") == {"0": 0.0, "1": 9.0}
    assert httpx.get(f"{fleet.address}/live/bills/x?engine=1").json()["error"]["code"] == "no_page"
    assert httpx.get(f"{fleet.address}/live/bills/x?engine=7").status_code == 503


def test_a_client_that_hangs_up_is_heard_by_the_replica(fleet: Fleet) -> None:
    stream = fleet.client.completions.create(model="mini-vllm", prompt="abc", max_tokens=1900, stream=True)
    next(stream)
    stream.close()
    wait_until(lambda: sum(fleet.counts("vllm:num_requests_running").values()) == 0, "no request runs")
    assert max(fleet.counts("vllm:kv_cache_usage_perc").values()) == 0


def test_sigterm_lets_running_streams_end_and_leaves_no_process(fleet: Fleet) -> None:
    engines = fleet.engines()
    stream = fleet.client.completions.create(model="mini-vllm", prompt="abc", max_tokens=400, stream=True)
    next(stream)
    os.kill(fleet.process.pid, signal.SIGTERM)
    assert list(stream)[-1].choices[0].finish_reason == "length"
    assert fleet.process.wait(PATIENCE) == 0
    assert not any(process.is_running() for process in engines)
    assert fleet.process.stderr is not None
    assert "Traceback" not in fleet.process.stderr.read()
