"""What the checks of the project's README may call: the sizes of the catalogs."""

from functools import cache

from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from tests.mutants.catalog import PHASES, alternatives, mutants


def catalog() -> tuple[int, int]:
    """Return how many mistakes the graded tests must catch, and how many fair solutions must pass."""
    return sum(len(mutants(phase)) for phase in PHASES), sum(len(alternatives(phase)) for phase in PHASES)


@cache
def traces() -> tuple[int, int, int]:
    """Return the number of traces without a defect of vLLM, of all, and of those that need phases 1 to 5 alone."""
    num_all = num_sound = num_plain = 0
    for file in PUBLIC_TRACES.glob("*.jsonl*"):
        for one in read_scenarios(file):
            num_all += 1
            num_sound += not one.defects
            num_plain += not (one.defects or one.electives or one.has_gates)
    return num_sound, num_all, num_plain
