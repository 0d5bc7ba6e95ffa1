"""The alerts and the dashboard that are shipped, without a Prometheus: `python -m tools.incidents` has one."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.serving.running import FAKE, serving
from tests.serving.test_metrics import scrape
from tools.incidents import __main__ as command
from tools.incidents.injected import HEALTHY, INCIDENTS
from tools.incidents.prometheus import OPERATE, NoPrometheusError, panel_queries

METRIC = re.compile(r"vllm:\w+")


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((OPERATE / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_every_alert_and_panel_asks_for_metrics_that_the_server_has() -> None:
    queries = [query for panel in panel_queries().values() for query in panel]
    asked = {name for text in (*queries, *(rule["expr"] for rule in rules())) for name in METRIC.findall(text)}
    with serving(FAKE) as server, server.client_of() as client:
        client.completions.create(model="mini-vllm", prompt="abc", max_tokens=2)
        known = {f"vllm:{name.split()[0]}" for name in scrape(server)}
    assert asked
    assert asked <= known


def test_every_alert_has_an_incident_and_says_what_to_turn() -> None:
    assert [rule["alert"] for rule in rules()] == [one.alert for one in INCIDENTS if one.alert != HEALTHY]
    assert len(INCIDENTS) == 11
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "knob"}


def test_panels_are_placed_without_overlap_and_numbered() -> None:
    panels = json.loads((OPERATE / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels})
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.parametrize(
    ("fired", "empty", "problems"),
    [
        ({("EngineDown", "EngineDown"): 8.0}, [], []),
        ({}, [], ["EngineDown has fired nothing within 30 s"]),
        ({("EngineDown", "EngineDown"): 8.0, ("nothing", "QueueLong"): 9.0}, [], ["nothing has fired QueueLong"]),
        ({("EngineDown", "EngineDown"): 8.0, ("EngineDown", "QueueLong"): 9.0}, [], ["EngineDown has"]),
        ({("EngineDown", "EngineDown"): 8.0}, ["Requests"], ["the panel Requests has no data"]),
    ],
)
def test_a_missing_alert_and_one_too_many_are_problems(
    fired: dict[tuple[str, str], float], empty: list[str], problems: list[str]
) -> None:
    found = command.problems_of(fired, [HEALTHY, "EngineDown"], empty)
    assert len(found) == len(problems)
    assert all(text.startswith(start) for text, start in zip(found, problems, strict=True))


@pytest.mark.parametrize("required", [False, True])
def test_without_prometheus_it_says_so_and_fails_only_if_required(
    required: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise NoPrometheusError("there is no promtool: tools/install_prometheus.sh fetches it")

    monkeypatch.setattr(command, "check_files", missing)
    monkeypatch.delenv("REQUIRE_PROMETHEUS", raising=False)
    if required:
        monkeypatch.setenv("REQUIRE_PROMETHEUS", "1")
    assert command.main() == required
    assert "The alerts were not tried: there is no promtool" in capsys.readouterr().out
