"""`python -m tests.mutants.scenarios --phase N` chooses the scenarios on which a phase is graded in an engine.

It first chooses the scenarios with the most pairs of settings and events per unit of time, then those that catch a
mutant that the others miss. The seeds that it prints belong in `mini_vllm_labs/grading/labtest/in_place/check.py`; then
their answers must be recorded.
"""

import argparse
import importlib
import os
import resource
import signal
import time
from dataclasses import fields
from itertools import combinations
from types import ModuleType

from mini_vllm_labs.grading.labtest.in_place.check import MAX_STEPS
from mini_vllm_labs.grading.labtest.in_place.place import Place, Record, trace_of
from mini_vllm_labs.grading.labtest.in_place.scenario import draw_scenario
from mini_vllm_labs.grading.labtest.in_place.tape import Tape
from tests.mutants.catalog import PHASES, Subject, module_name, mutants

MAX_SECONDS = 2
Traces = dict[int, tuple[list[Record], Tape]]


def main() -> None:
    """Print the seeds of a phase, how many mutants they catch, and which they miss."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.scenarios", description=__doc__)
    parser.add_argument("--phase", type=int, choices=PHASES, required=True)
    parser.add_argument("--drawn", type=int, default=60, help="scenarios to choose from (default: 60)")
    parser.add_argument("--chosen", type=int, default=25, help="how many to choose at most (default: 25)")
    options = parser.parse_args()
    phase, subjects, missed = options.phase, mutants(options.phase), list[str]()
    traces = by_new_facts(phase, options.drawn)
    chosen = list(traces)[: 4 * options.chosen // 5]
    for subject in subjects:
        tried = traces if len(chosen) < options.chosen else chosen
        seed = first_seen(phase, subject, {seed: traces[seed] for seed in dict.fromkeys([*chosen, *tried])})
        if seed is None:
            missed.append(subject.name)
        elif seed not in chosen:
            chosen.append(seed)
    print(f"{phase}: {' '.join(map(str, sorted(chosen, key=lambda seed: len(traces[seed][0]))))}")
    num_steps = sum(len(traces[seed][0]) for seed in chosen)
    print(f"{len(subjects) - len(missed)} of {len(subjects)} mutants seen in {num_steps} steps; not seen:")
    print("\n".join(missed))


def by_new_facts(phase: int, drawn: int) -> Traces:
    """Return the reference's traces, ordered so that each adds the most new pairs per unit of time."""
    module, traces, facts, seconds = importlib.import_module(f"solutions.{module_name(phase)}"), Traces(), {}, {}
    for seed in range(drawn):
        start, tape = time.process_time(), Tape()
        place = Place(phase, module, draw_scenario(phase, seed), tape)
        try:
            trace = trace_of(place, MAX_STEPS)
        except RuntimeError:  # the neighbours never schedule a request
            continue
        if place.finished and not place.what_is_broken():
            traces[seed], facts[seed] = (trace, tape), facts_of(place, trace)
            seconds[seed] = time.process_time() - start + 0.01
    order, known = Traces(), set[object]()
    while left := traces.keys() - order.keys():
        best = max(sorted(left), key=lambda seed: len(facts[seed] - known) / seconds[seed])
        order[best] = traces[best]
        known |= facts[best]
    return order


def facts_of(place: Place, trace: list[Record]) -> set[object]:
    """Return a scenario's pairs of settings and events."""
    facts = {f"gap {place.scenario.gap}", f"fails {bool(place.scenario.failing_batch)}"}
    for one in fields(place.config):
        value = getattr(place.config, one.name)
        facts.add(f"{one.name} {value if not isinstance(value, int) or value < 17 else 'large'}")
    for record in trace:
        facts |= {f"{len(record['preempted'])} victims"} | {str(end[1]) for end in record["finished"]}
        facts |= {f"{one['kind']} {min(one.get('hit', 0), 1)} {one['n'] > 1}" for one in record["scheduled"]}
        facts |= {"returned"} if any(victim[2] for victim in record["preempted"]) else set()
    return set(combinations(sorted(facts), 2))


def first_seen(phase: int, subject: Subject, traces: Traces) -> int | None:
    """Return the first seed at which a mutant differs from the reference; it runs in a separate process."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (2**32, 2**32))
        module = ModuleType("mutant")
        exec(subject.text, vars(module))
        for seed, (trace, tape) in traces.items():
            signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # a mistake that makes the process exit
            os.write(writer, f"{seed} ".encode())
            if differs(phase, module, seed, trace, Tape(tape.answers)):
                os._exit(0)
        os.write(writer, b"none")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as seeds:
        last = seeds.read().split()[-1]
    os.wait()
    return None if last == "none" else int(last)


def differs(phase: int, module: ModuleType, seed: int, trace: list[Record], tape: Tape) -> bool:
    """Return whether a scenario runs differently from its recording."""
    try:
        place = Place(phase, module, draw_scenario(phase, seed), tape)
        return any(place.step() != right or place.what_is_broken() for right in trace)
    except Exception:
        return True


if __name__ == "__main__":
    main()
