"""`mini-vllm bench serve`: against any endpoint, and with servers that it starts itself."""

import json
import sys
from pathlib import Path

import pytest

from mini_vllm.installation import pip_install
from mini_vllm_labs.bench import peer_process
from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve import server_process
from mini_vllm_labs.bench.serve.http_cost import STREAMED
from mini_vllm_labs.bench.serve.server_process import MeasuredServer, ServerCommand, server_command, why_missing
from mini_vllm_labs.bench.serve.text_requests import Endpoint
from tests.bench.conftest import executable
from tests.bench.serve.stub import Stub
from tests.cli.conftest import Commands


def test_any_endpoint_is_measured_and_its_rate_searched(mini_vllm: Commands, stub: Stub) -> None:
    options = ("--base-url", stub.endpoint.base_url, "--model", "stub", "--quick", "--extra-body", '{"top_k": 3}')
    record = json.loads(mini_vllm("bench", "serve", *options, "--goodput", "ttft:10000", "--json").stdout)
    found = record["servers"]["stub"]["report"]
    assert (found["completed"], found["failed"], len(record["cases"])) == (6, {}, 1)
    assert found["request_goodput"] == pytest.approx(found["request_throughput"])
    assert 0 < found["ttft"]["p50"] <= found["ttft"]["p99"] <= found["e2el"]["p99"] <= found["duration"]
    assert record["sent"]["request_rate"] == "inf"
    assert stub.bodies[-1]["top_k"] == 3
    shown = mini_vllm("bench", "serve", *options, "--find-rate").output
    assert "Successful requests:                     6" in shown
    assert "The highest request rate with p99 TTFT within 5000 ms" in shown
    assert shown.count("requests/s: held") + shown.count("requests/s: not") == 2


def test_our_server_is_started_measured_and_ended(mini_vllm: Commands) -> None:
    record = json.loads(mini_vllm("bench", "serve", "--quick", "--lineup", "solution:1-5", "--json").stdout)
    found = record["servers"]["mini-vllm"]
    assert (found["report"]["completed"], found["report"]["failed"]) == (6, {})
    assert found["report"]["total_output_tokens"] > 6
    assert [probed["num_failed"] for probed in found["rate_search"]["probed"]] == [0, 0]
    *_, case = map(Case.read, record["cases"])
    equal, compared = case.sides[STREAMED].equal
    assert 256 <= equal == compared <= 768
    assert [aim["found"] for aim in record["aims"]] == [pytest.approx(1 - case.ratio(STREAMED))]


PEER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b"")
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["ignore_eos"] and body["model"] == "openvino"
        event = {"choices": [{"text": "word", "finish_reason": "length"}]}
        self.answer(f"data: {json.dumps(event)}\\n\\n".encode())
    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
Server(("127.0.0.1", int(sys.argv[-1])), Handler).serve_forever()
"""


def test_a_peer_is_shown_beside_ours(mini_vllm: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", executable(tmp_path, PEER))
    monkeypatch.setenv("COLUMNS", "80")
    shown = mini_vllm("bench", "serve", "--quick", "--peers", "openvino", "--rounds", 0, "--threads", 1).output
    assert all(f"= {name} =" in shown for name in ("mini-vllm", "openvino"))
    assert all(f"{name} █" in shown for name in ("mini-vllm", "openvino"))
    assert "is missing" not in shown


def test_a_peer_that_breaks_off_is_missing_with_its_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = executable(tmp_path, "raise SystemExit('no such processor')")
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", broken)
    with pytest.raises(PeerError, match="openvino exited early; its last lines: no such processor"):
        MeasuredServer(server_command("openvino", BackendSettings("")))


def test_a_server_that_never_answers_is_given_up_and_ended() -> None:
    silent = [sys.executable, "-c", "import time; print('loading', flush=True); time.sleep(600)"]
    with pytest.raises(PeerError, match=r"slow did not answer within 0.5 seconds; its last lines: "):
        MeasuredServer(ServerCommand("slow", silent, Endpoint("http://127.0.0.1:1", "m"), {}), start_timeout=0.5)


def test_what_a_peer_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "find_spec", lambda name: None if name == "accelerate" else object())
    monkeypatch.setattr(peer_process, "OPENVINO_PYTHON", Path("nowhere"))
    assert why_missing("mini-vllm") is None
    assert why_missing("transformers-serve") == f"it needs `{pip_install('accelerate')}`"
    assert "python -m mini_vllm_labs.upkeep.openvino_peer" in (why_missing("openvino") or "")


def test_every_server_gets_the_same_model_threads_and_cache() -> None:
    settings = BackendSettings("/models/a", "bfloat16", 3, 6400, 256, 32)
    ours, theirs = (server_command(name, settings) for name in ("mini-vllm", "transformers-serve"))
    assert {"--num-gpu-blocks=401", "--max-num-batched-tokens=256", "--max-num-seqs=32"} <= set(ours.arguments)
    assert {"--continuous-batching", "--cb-num-blocks=204", "--cb-max-batch-tokens=256"} <= set(theirs.arguments)
    for command in (ours, theirs):
        assert "/models/a" in command.arguments
        assert "--dtype=bfloat16" in command.arguments
        assert f"--port={command.endpoint.port}" in command.arguments
        assert command.environment == {"OMP_NUM_THREADS": "3"}
    assert server_command("mini-vllm", BackendSettings("", num_threads=0)).environment == {}
