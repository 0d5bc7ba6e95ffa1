"""If the learner's engine has not been written yet: the recorded conversation, and a notice for everything else."""

import json
from collections.abc import Sequence

import pytest

from mini_vllm_labs.notebook import Lab, Notice
from mini_vllm_labs.notebook.serving import LabServer, compare_metrics, draw_bills
from mini_vllm_labs.notebook.serving.metrics_table import Metrics
from mini_vllm_labs.notebook.serving.notices import missing_extras
from mini_vllm_labs.notebook.serving.replay import Exchange, in_words, recorded
from tests.notebook.cells import NOTEBOOKS, run_cells
from tests.serving.notebook.conftest import CONFIG, ask, stream

LINEUP = Lab(6, "solution").lineup()
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def events(pieces: Sequence[str]) -> str:
    shared = {"id": f"chatcmpl-{'0' * 32}", "created": 1234}
    texts = [
        json.dumps(shared | {"choices": [{"delta": {"content": piece}}]}, separators=(",", ":")) for piece in pieces
    ]
    last = json.dumps(shared | {"choices": [{"delta": {}, "finish_reason": "stop"}]}, separators=(",", ":"))
    return "".join(f"data: {text}\n\n" for text in [*texts, last, "[DONE]"])


def test_a_record_does_not_depend_on_how_a_stream_was_cut() -> None:
    asked = '{"stream": true, "model": "m"}'
    cuts = (["", "One", " day", "."], ["", "One day."], ["", "O", "ne da", "y."])
    records = [
        recorded([Exchange("POST", "/v1/chat/completions", asked, 200, STREAM, events(cut))], CONFIG, LINEUP)
        for cut in cuts
    ]
    assert records[0] == records[1] == records[2]
    (line,) = records[0].values()
    answer = json.loads(line)["answer"]
    assert [piece for piece in ("One", " day.") if f'"content":"{piece}"' in answer] == ["One", " day."]
    assert answer.endswith("data: [DONE]\n\n")
    assert "chatcmpl-1" in answer
    assert '"created":0' in answer


def test_a_stream_without_text_stays_as_it_is() -> None:
    assert in_words(events([])) == events([])


def test_a_record_is_found_whatever_the_order_of_the_fields_and_the_second_is_another() -> None:
    bodies = ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')
    one, other = (Exchange("POST", "/v1/completions", asked, 200, {}, "x") for asked in bodies)
    assert recorded([one], CONFIG, LINEUP) == recorded([other], CONFIG, LINEUP)
    assert len(recorded([one, other], CONFIG, LINEUP)) == 2


def test_times_are_not_recorded() -> None:
    text = 'vllm:prompt_tokens_total{engine="0"} 15.0\nvllm:time_to_first_token_seconds_sum{engine="0"} 0.1\n'
    (line,) = recorded([Exchange("GET", "/metrics", "", 200, {}, text)], CONFIG, LINEUP).values()
    assert json.loads(line)["answer"] == text.splitlines(keepends=True)[0]


def test_recorded_answers_are_marked_and_only_the_asked_ones_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (path for path in NOTEBOOKS if path.stem == "12_serving")
    names = run_cells(path, "starter", monkeypatch)[0]
    server = names["server"]
    assert isinstance(server, LabServer)
    assert "reference, recorded" in repr(server)
    metrics = server.metrics()
    assert isinstance(metrics, Metrics)
    pictures = [draw_bills(server.run(), "A", "F"), compare_metrics({"now": metrics}, "vllm:prompt_tokens_total")]
    for shown in (server, metrics, names["heard"], *pictures):
        bundle = shown._repr_mimebundle_()
        assert bundle["text/plain"].startswith("Recorded with the reference")
        assert "Recorded with the reference" in bundle.get("image/svg+xml", bundle["text/html"])
    for answer in (server.ask(ask("something else", 3)), server.at_once(X=stream("something else", 3))):
        assert isinstance(answer, Notice)
        assert "Not recorded" in str(answer)


def test_a_missing_package_is_a_notice_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_extras(["openai", "fastapi"]) is None
    monkeypatch.setattr(
        "mini_vllm_labs.notebook.serving.notices.find_spec",
        lambda name: None if name in ("openai", "fastapi") else name,
    )
    made = LabServer(Lab(5, "solution"), CONFIG)
    assert "needs openai, fastapi" in str(made)
    assert "%pip install -c ../constraints.txt openai fastapi" in made._repr_mimebundle_()["text/html"]
    assert "fastapi" not in str(LabServer(Lab(5, "starter"), CONFIG))
    for shown in (made.ask(ask("a", 1)), made.at_once(A=stream("a", 1)), made.run(), made.metrics()):
        assert isinstance(shown, Notice)
    made.pause()
    made.resume()
    made.close()
