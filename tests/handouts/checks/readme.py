"""What the checks of the project's README may call: the sizes of the catalogs."""

from course.parity.scenario import PUBLIC_TRACES
from tests.handouts.checks.recorded import recorded
from tests.mutants.catalog import PHASES, alternatives, mutants


def catalog() -> tuple[int, int]:
    """Return how many mistakes the graded tests must catch, and how many fair solutions must pass."""
    return sum(len(mutants(phase)) for phase in PHASES), sum(len(alternatives(phase)) for phase in PHASES)


def traces() -> tuple[int, int, int]:
    """Return the number of traces without a defect of vLLM, of all, and of those that need phases 1 to 5 alone."""
    found = [one for file in PUBLIC_TRACES.glob("*.jsonl*") for one in recorded(file.name)]
    sound = [one for one in found if not one.defects]
    return len(sound), len(found), sum(not one.electives and not one.has_gates for one in sound)
