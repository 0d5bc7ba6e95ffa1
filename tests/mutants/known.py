"""`python -m tests.mutants.known` locks the mistakes and fair alternatives on which `mini-vllm grade-tests` tries
tests.

It runs each mutant until the first graded test fails; the rule of that test is the mistake's rule. Up to two mistakes
of each rule are chosen, in the order of the catalogue.
"""

import re
from collections import Counter
from types import ModuleType

from mini_vllm_labs.grading.hints import RULE
from mini_vllm_labs.grading.known_mistakes import FOLDER, KnownMistakes, keys_of, locked
from tests.mutants.catalog import PHASES, Subject, alternatives, mutants, reference
from tests.mutants.harness import harness, phases_and_jobs
from tests.mutants.verdict import Verdict

MOST_TRIED, MOST_PER_RULE, MOST_FAIR = 60, 2, 6
REPORTED = re.compile(rf"\A(.+?)\n\n|^(?:E +)?{RULE}(.+)$", re.DOTALL | re.MULTILINE)
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z`])")
# Mistakes that can be detected only with a whole engine, by counting lines, by inspecting private lists, or by luck.
NOT_ASKED = re.compile(r"^In an engine |\blines (of|run)\b|\bcosts?\b|memory leak|^\(\d+ of the random", re.IGNORECASE)


def main() -> None:
    """Write the files of the phases, and print their rules."""
    options = phases_and_jobs("tests.mutants.known", __doc__).parse_args()
    FOLDER.mkdir(exist_ok=True)
    with harness(options.jobs) as workers:
        for phase in options.phases or PHASES:
            subjects = sampled(mutants(phase))
            verdicts = workers.examine(subjects, stop_at_first=True)
            known = known_of(phase, [(one, rule_of(verdict)) for one, verdict in zip(subjects, verdicts, strict=True)])
            (FOLDER / f"phase{phase}.json").write_text(locked(known, keys_of(phase, loaded(phase))), encoding="utf-8")
            print(f"\nphase {phase}: {len(known.mistakes)} mistakes, {len(known.fair)} fair ways", flush=True)
            for rule, number in Counter(rule for rule, _ in known.mistakes).items():
                print(f"  {number} {rule}")


def sampled(subjects: list[Subject]) -> list[Subject]:
    """Return some of the mutants, chosen evenly from the whole catalogue."""
    step = max(1, -(-len(subjects) // MOST_TRIED))
    return subjects[::step]


def rule_of(verdict: Verdict) -> str:
    """Return the first sentence of the failed graded test's rule; empty if the mistake caused an endless loop."""
    found = REPORTED.search(verdict.detail) if verdict.outcome == "failed" else None
    rule = " ".join((found[1] or found[2]).split()) if found else ""
    return "" if NOT_ASKED.search(rule) else SENTENCE.split(rule)[0]


def known_of(phase: int, judged: list[tuple[Subject, str]]) -> KnownMistakes:
    """Choose the known mistakes from mutants, each with its rule."""
    chosen, number = list[tuple[str, str]](), Counter[str]()
    for subject, rule in judged:
        if rule and number[rule] < MOST_PER_RULE:
            number[rule] += 1
            chosen.append((rule, subject.text))
    fair = [(one.name, one.text) for one in alternatives(phase)[:MOST_FAIR]]
    return KnownMistakes(reference(phase).text, sorted(chosen, key=lambda one: list(number).index(one[0])), fair)


def loaded(phase: int, text: str | None = None) -> ModuleType:
    """Return an implementation as a module, by default the reference."""
    module = ModuleType(f"phase{phase}")
    exec(reference(phase).text if text is None else text, vars(module))
    return module


if __name__ == "__main__":
    main()
