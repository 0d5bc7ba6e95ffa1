"""Functions for checking several documents: vLLM's recorded traces, read once."""

from functools import cache

from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, PUBLIC_TRACES, Scenario, read_scenarios


@cache
def recorded(name: str) -> list[Scenario]:
    """Return the scenarios in a file without their steps, which take up a gigabyte."""
    scenarios = read_scenarios(PUBLIC_TRACES / name)
    return [Scenario({part: one.line[part] for part in one.line if part != "trace"}) for one in scenarios]


def all_recorded() -> list[Scenario]:
    return [one for file in PUBLIC_FILES for one in recorded(file.name)]


def of_the_course() -> list[Scenario]:
    """Return the scenarios that learners meet first: the named ones and the first random ones."""
    return recorded("named.jsonl") + recorded("random.jsonl.gz")
