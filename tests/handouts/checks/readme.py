"""Functions for checking the project's README: the sizes of the catalogs, and the recorded benchmarks."""

import json
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.bench.case import Case
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, PUBLIC_TRACES, read_scenarios
from tests.handouts.checks.recorded import recorded
from tests.mutants.catalog import PHASES, alternatives, mutants

MODELS = ("embedded", "random-150m")


def catalog() -> tuple[int, int]:
    """Return how many mistakes the graded tests must catch, and how many fair solutions must pass."""
    return sum(len(mutants(phase)) for phase in PHASES), sum(len(alternatives(phase)) for phase in PHASES)


def traces() -> tuple[int, int, int]:
    """Return the numbers of traces: without a defect of vLLM, in total, and with only phases 1 to 5."""
    found = [one for file in PUBLIC_TRACES.glob("*.jsonl*") for one in recorded(file.name)]
    sound = [one for one in found if not one.defects]
    return len(sound), len(found), sum(not one.electives and not one.has_gates for one in sound)


def newer_traces() -> tuple[int, int]:
    """Return how many traces of vLLM 0.33.0 show none of its defects, and how many there are in total."""
    found = [bool(one.defects) for file in NEWER_FILES for one in read_scenarios(file)]
    return found.count(False), len(found)


def at_once(peer: str, digits: int = 1) -> tuple[float, float]:
    """Return our tokens/s over a peer's, with all requests at once in float32, for the embedded and 143.7 M models."""
    first, second = (benchmark(f"throughput-{model}-float32")["cases"][0] for model in MODELS)
    return round(Case.read(first).ratio(peer), digits), round(Case.read(second).ratio(peer), digits)


def served() -> tuple[float, float, float]:
    """Return our request rate divided by that of `transformers serve` for both models, and HTTP's cost as a
    percentage."""
    embedded, larger = (benchmark(f"serve-on-{model}") for model in MODELS)
    cost = next(one["found"] for one in embedded["aims"] if one["text"].startswith("HTTP"))
    return round(embedded["aims"][0]["found"], 1), round(larger["aims"][0]["found"], 1), round(100 * cost, 1)


def benchmark(name: str) -> Any:
    return json.loads((CHECKOUT / f"docs/benchmarks/{name}.json").read_text(encoding="utf-8"))
