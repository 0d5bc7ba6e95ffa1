"""`python -m tools.incidents`: ten incidents on ten servers, a real Prometheus, and the alerts that are shipped.

Each incident must fire its alert within 30 seconds and no other; a healthy server fires none; every query of the
dashboard must have an answer. It takes about 45 seconds. Without Prometheus it says so, and fails if
`REQUIRE_PROMETHEUS` is set.
"""

import asyncio
import logging
import os
import sys
import time

from tools.incidents.injected import HEALTHY, Site, sites
from tools.incidents.prometheus import NoPrometheusError, Prometheus, check_files, panel_queries, prometheus

SECONDS = 30.0
Fired = dict[tuple[str, str], float]


async def watch(running: Prometheus, opened: list[Site]) -> Fired:
    """Let everything go wrong for 30 seconds; return after how many each alert fired, by incident."""
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
    """Print when each alert fired; return what should not be."""
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
    logging.getLogger("mini_vllm.engine").setLevel(logging.CRITICAL)  # failures are meant, and preemptions
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
