"""Tests the shipped alerts with ten incidents on ten servers monitored by a real Prometheus.

Run it as `python -m mini_vllm_labs.upkeep.incidents`.

Each incident must trigger only its own alert, within 30 seconds. A healthy server must not trigger any. Every dashboard
query must return a result. The test takes about 45 seconds. Without Prometheus, it prints a message, and fails if
`REQUIRE_PROMETHEUS` is set.
"""

import asyncio
import json
import logging
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import yaml

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.upkeep.incidents.injected import HEALTHY, Site, sites

OPERATE = CHECKOUT / "mini_vllm_labs" / "serving" / "operate"
WINDOW = "20s"  # the value that Grafana chooses for $__rate_interval
SECONDS_TO_START = 60
SECONDS = 30.0
Fired = dict[tuple[str, str], float]


class NoPrometheusError(RuntimeError):
    """Raised if `prometheus` or `promtool` is missing."""


def program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`. Raises `NoPrometheusError`."""
    found = shutil.which(name, path=f"{CHECKOUT / '.prometheus/usr/bin'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        raise NoPrometheusError(f"{name} is not installed: run mini_vllm_labs/upkeep/install_prometheus.sh")
    return found


def check_files() -> None:
    """Check the config and its rules with promtool.

    Raises `subprocess.CalledProcessError`, whose stderr contains the reason.
    """
    promtool = program("promtool")
    for command in ("check", "config", "prometheus.yml"), ("check", "rules", "--lint-fatal", "alerts.yml"):
        subprocess.run([promtool, *command], cwd=OPERATE, check=True, stdout=subprocess.DEVNULL)


def panel_queries() -> dict[str, list[str]]:
    """Return the dashboard's queries, keyed by panel."""
    panels = json.loads((OPERATE / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    return {
        panel["title"]: [target["expr"].replace("$__rate_interval", WINDOW) for target in panel["targets"]]
        for panel in panels
    }


class Prometheus:
    """Queries a running Prometheus over HTTP."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, **params: str) -> Any:
        response = httpx.get(f"{self.address}/api/v1/{path}", params=params, timeout=30)
        # Prometheus is still starting up, and answers in plain text
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            response.raise_for_status()
        answer = response.json()
        if answer["status"] != "success":
            raise ValueError(f"Prometheus refuses {params}: {answer['error']}")
        return answer["data"]

    def firing(self) -> set[tuple[str, str]]:
        """Return (incident, alert) for each firing alert."""
        alerts = self.get("alerts")["alerts"]
        return {(one["labels"]["incident"], one["labels"]["alertname"]) for one in alerts if one["state"] == "firing"}

    def has_data(self, query: str) -> bool:
        """Return whether a query currently returns a number."""
        return any(math.isfinite(float(series["value"][1])) for series in self.get("query", query=query)["result"])

    def wait_for_targets(self, number: int) -> None:
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end:
            try:
                if sum(target["health"] == "up" for target in self.get("targets")["activeTargets"]) == number:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"Prometheus did not reach all {number} servers within {SECONDS_TO_START} seconds")


@contextmanager
def prometheus(targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped files, but with different targets, given as a mapping from incident to
    address."""
    config = yaml.safe_load((OPERATE / "prometheus.yml").read_text(encoding="utf-8"))
    config["rule_files"] = [str(OPERATE / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [
        {"targets": [address], "labels": {"incident": incident}} for incident, address in targets.items()
    ]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as folder:
        (Path(folder) / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen([program("prometheus"), *options, "--log.level=error"], cwd=folder) as process:
            try:
                running = Prometheus(f"http://127.0.0.1:{port}")
                running.wait_for_targets(len(targets))
                yield running
            finally:
                process.terminate()


async def watch(running: Prometheus, opened: list[Site]) -> Fired:
    """Run all incidents for 30 seconds, and return how many seconds each (incident, alert) pair took to fire."""
    fired: Fired = {}
    tasks = [asyncio.create_task(site.suffer()) for site in opened]
    began = time.monotonic()
    while (now := time.monotonic() - began) < SECONDS:
        for each in await asyncio.to_thread(running.firing):
            fired.setdefault(each, now)
        await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return fired


def problems_of(fired: Fired, incidents: list[str], empty: list[str]) -> list[str]:
    """Print when each alert fired, and return the problems."""
    problems = [f"the panel {panel} has no data" for panel in empty]
    for incident in incidents:
        seconds = {alert: when for (name, alert), when in fired.items() if name == incident}
        print(f"{incident:18} {', '.join(f'{alert} after {when:.0f} s' for alert, when in seconds.items()) or '-'}")
        if seconds.keys() != {incident} - {HEALTHY}:
            problems.append(f"{incident} has fired {', '.join(seconds) or 'nothing'} within {SECONDS:g} s")
    return problems


def main() -> int:
    try:
        check_files()
    except NoPrometheusError as error:
        print(f"The alerts were not tried: {error}")
        return int("REQUIRE_PROMETHEUS" in os.environ)
    logging.getLogger("mini_vllm.engine").setLevel(logging.CRITICAL)  # failures and preemptions are expected here
    with sites() as opened, prometheus({site.incident.alert: site.target for site in opened}) as running:
        fired = asyncio.run(watch(running, opened))
        panels = panel_queries()
        empty = [name for name, queries in panels.items() if not all(map(running.has_data, queries))]
        problems = problems_of(fired, [site.incident.alert for site in opened], empty)
    print(f"{len(panels) - len(empty)} of {len(panels)} panels have data")
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
