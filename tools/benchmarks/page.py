"""docs/benchmarks.md from the records of the runs."""

from collections.abc import Mapping
from typing import Any

from tools.benchmarks.costs import loop, scheduler
from tools.benchmarks.electives import in_flight, speculative
from tools.benchmarks.features import feature
from tools.benchmarks.serving import serving
from tools.benchmarks.simulator import simulator
from tools.benchmarks.table import Record
from tools.benchmarks.throughput import throughput

HEAD = """# Benchmarks

Made by `python -m tools.benchmarks` from the records in `docs/benchmarks/`; do not edit. The heading of each part
names the command that measures it.

"""


def page(records: Mapping[str, Record]) -> str:
    """Return the whole page. Benchmarks that were not run are listed as not measured."""
    parts = [HEAD, machine(records)]
    parts.append(throughput([record for name, record in records.items() if name.startswith("throughput")]))
    parts += [feature(records.get(name), name) for name in ("prefix", "chunked", "preemption")]
    parts += [speculative(records.get("speculative")), in_flight(records.get("async"))]
    parts.append(serving([record for name, record in records.items() if name.startswith("serve-on-")]))
    parts += [scheduler(records.get("scheduler")), loop(records.get("loop"))]
    parts.append(simulator(records.get("calibrate")))
    parts.append("## GPUs\n\nNot measured.\n")
    return "".join(parts)


def machine(records: Mapping[str, Record]) -> str:
    """Return a description of the machine, and a warning if any run was a quick one."""
    texts = []
    for text in dict.fromkeys(_machine_text(record["machine"]) for record in records.values()):
        texts.append(f"Machine: {text}\n\n")
    if any(record["quick"] for record in records.values()):
        texts.append(
            "**Some of these are quick trial runs: they show that the command works, and measure nothing.**\n\n"
        )
    return "".join(texts)


def _machine_text(found: Mapping[str, Any]) -> str:
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )
