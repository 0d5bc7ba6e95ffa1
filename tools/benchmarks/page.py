"""docs/benchmarks.md from the records of the runs."""

from collections.abc import Callable, Mapping

from tools.benchmarks.electives import in_flight, speculative
from tools.benchmarks.engine import feature, loop, scheduler, simulator
from tools.benchmarks.serving import serving
from tools.benchmarks.table import Record, section
from tools.benchmarks.throughput import throughput

HEAD = """# Benchmarks

Made by `python -m tools.benchmarks` from the records in `docs/benchmarks/`; do not edit. The heading of each part
names the command that measures it.

"""


def page(records: Mapping[str, Record]) -> str:
    """Return the whole page. Benchmarks that were not run are listed as not measured."""

    def one(name: str, body: Callable[[Record], str]) -> str:
        return section(f"bench {name}", records.get(name), body)

    return "".join(
        [
            HEAD,
            machine(records),
            throughput([record for name, record in records.items() if name.startswith("throughput")]),
            *(one(name, feature) for name in ("prefix", "chunked", "preemption")),
            one("speculative", speculative),
            one("async", in_flight),
            serving([record for name, record in records.items() if name.startswith("serve-on-")]),
            one("scheduler", scheduler),
            one("loop", loop),
            section("calibrate --check --rounds 9", records.get("calibrate"), simulator),
            "## GPUs\n\nNot measured.\n",
        ]
    )


def machine(records: Mapping[str, Record]) -> str:
    """Return a description of the machine, and a warning if any run was a quick one."""
    texts = [
        f"Machine: {text}\n\n" for text in dict.fromkeys(_machine_text(one["machine"]) for one in records.values())
    ]
    if any(record["quick"] for record in records.values()):
        texts.append(
            "**Some of these are quick trial runs: they show that the command works, and measure nothing.**\n\n"
        )
    return "".join(texts)


def _machine_text(found: Record) -> str:
    return (
        f"{found['cores']} cores ({found['architecture']}, {found['vectors']}), {found['memory_gib']} GiB of memory, "
        f"{found['system']}; Python {found['python']}, torch {found['torch']}, transformers {found['transformers']}."
    )
