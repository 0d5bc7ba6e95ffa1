"""The kinds of questions. Each kind finds candidates in runs, and a run determines every right answer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mini_vllm_labs.viva.changes import Change, deletions, swaps
from mini_vllm_labs.viva.files import Files
from mini_vllm_labs.viva.runs import Played, RunPlayer, first_change
from mini_vllm_labs.viva.sheet import VivaQuestion

NUM_DELETED, NUM_SWAPPED = 24, 30
NUM_OPTIONS, NUM_TRIED = 4, 30
WINDOW = 4
SETTINGS = {"max_num_seqs": (2, 3, 6), "max_num_batched_tokens": (14, 18, 40), "num_gpu_blocks": (17, 26)}


@dataclass
class Facts:
    """The learner's files, their run, and the same run with a single change."""

    files: Files
    base: Played
    deleted: list[tuple[Change, Played]] = field(default_factory=list)
    swapped: list[tuple[Change, Played]] = field(default_factory=list)
    settings: list[tuple[str, int, int, Played]] = field(default_factory=list)

    @property
    def ran(self) -> dict[int, dict[int, int]]:
        """For each phase, the lines that ran, and the first step in which each of them ran."""
        found: dict[int, dict[int, int]] = {phase: {} for phase in self.files.texts}
        for step, phase, line in self.base.seen["lines"]:
            found[phase].setdefault(line, step)
        return found

    def quoted(self, phase: int, line: int) -> str:
        return f"line {line} of phase {phase} (`{self.files.line(phase, line)}`)"


def gather(files: Files, base: Played, player: RunPlayer, rng: Random) -> Facts:
    """Run the learner's files with lines deleted, operators swapped and settings changed."""
    facts = Facts(files, base)
    lines = facts.ran

    def played(changes: Callable[..., Iterator[Change]], limit: int) -> list[tuple[Change, Played]]:
        found = {one.text: one for phase, text in files.texts.items() for one in changes(phase, text, lines[phase])}
        drawn = rng.sample(list(found.values()), min(limit, len(found)))
        runs = [(one, player.play(files.with_text(one.phase, one.text), {"check_invariants": False})) for one in drawn]
        # How far an endless loop gets depends on the machine.
        return [(one, run) for one, run in runs if "OutOfTime" not in run.problem and "process" not in run.problem]

    facts.deleted = played(deletions, NUM_DELETED)
    facts.swapped = played(swaps, NUM_SWAPPED)
    for name, value in ((name, value) for name, values in SETTINGS.items() for value in values):
        run = player.play(files, {name: value})
        if not run.problem:  # for example, without phase 5, a small budget cannot hold a prompt
            facts.settings.append((name, base.settings[name], value, run))
    return facts


def values(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask which number a line read."""
    different: dict[tuple[Any, ...], set[int]] = {}
    for _, *place, value, _ in facts.base.seen["values"]:
        different.setdefault(tuple(place), set()).add(value)
    for step, phase, line, name, value, request in facts.base.seen["values"]:
        if len(different[phase, line, name]) > 2 and not name.endswith("_id") and 0 <= value < 1000:
            whose = f" for {request}" if request else ""
            text = f"In step {step}, {facts.quoted(phase, line)} runs for the first time{whose}. What is `{name}` then?"
            yield VivaQuestion("value", text, value, str(value), facts.base.around(step))


def stops(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask which line ended a step's plan."""
    stopping = dict.fromkeys(line for _, line, _ in facts.base.seen["stops"])
    for step, line, lines in facts.base.seen["stops"]:
        others, more = [one for one in stopping if one != line], [one for one in lines if one not in stopping]
        wrong = [*others, *rng.sample(more, len(more))][: NUM_OPTIONS - 1]
        options = rng.sample([line, *wrong], 1 + len(wrong))
        text = f"In step {step} `schedule_step` ends. Which line of phase 1 runs last, except for `return`?"
        shown = tuple(f"line {one}: {facts.files.line(1, one)}" for one in options)
        yield VivaQuestion("stop", text, options.index(line) + 1, f"line {line}", facts.base.around(step), shown)


def first_steps(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask in which step a line first ran."""
    for phase, lines in facts.ran.items():
        for line, step in lines.items():
            if step > 1:
                text = f"Which is the first step in which {facts.quoted(phase, line)} runs?"
                yield VivaQuestion("first run", text, step, f"step {step}", facts.base.around(step))


def blocks(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask how many blocks a request holds."""
    for step in facts.base.steps if 2 in facts.files.texts else ():
        for share in step["scheduled"]:
            text = f"How many blocks does {share['id']} hold once step {step['step']} is planned?"
            held = len(share["blocks"])
            yield VivaQuestion("blocks", text, held, str(held), facts.base.around(step["step"]))


def deleted_lines(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask which step changes first if a line is deleted."""
    for change, run in facts.deleted:
        step = first_change(facts.base, run)
        if step:  # step 0 would be a good guess, because the run uses most lines right away
            place = facts.quoted(change.phase, change.line)
            text = f"Write `pass` for {place}. Which is the first step that changes or fails?"
            yield VivaQuestion("deletion", text, step, f"step {step}", run.around(step))


def swapped_traces(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask which steps were produced by the file in which an operator was replaced."""
    runs = [facts.base, *(run for _, run in [*facts.swapped, *facts.deleted]), *(run for *_, run in facts.settings)]
    for change, run in facts.swapped:
        step = first_change(facts.base, run)
        if step is None:
            continue
        right, *others = dict.fromkeys(window(one, step) for one in (run, *runs))
        wrong = [one for one in others if is_long(one)]
        if not is_long(right) or len(wrong) < NUM_OPTIONS - 1:
            continue
        # The learner's own run comes first, to show how it looks without a change.
        own, *rest = wrong
        options = rng.sample([right, own, *distractors(right, own, rest, rng)], NUM_OPTIONS)
        place = facts.quoted(change.phase, change.line)
        text = f"Write `{change.new}` for `{change.old}` in {place}. Which of these steps are then the run's?"
        yield VivaQuestion("operator", text, options.index(right) + 1, right, run.around(step), tuple(options))


def window(run: Played, start: int) -> str:
    return "\n".join(run.lines(start, start + WINDOW))


def is_long(text: str) -> bool:
    return text.count("\n") > 1


def distractors(right: str, own: str, rest: Sequence[str], rng: Random) -> Sequence[str]:
    """Draw the other options of a choice so that comparing the options does not reveal the right one.

    For each feature, the right option's rank among all the options is drawn at random.
    """
    drawn = [tuple(rng.sample(rest, NUM_OPTIONS - 2)) for _ in range(NUM_TRIED)]
    ranks = [rng.randrange(NUM_OPTIONS) for _ in features(right, [own])]

    def miss(others: Sequence[str]) -> int:
        options = [right, own, *others]
        mine, *theirs = (features(one, options) for one in options)
        places = (rank(value, values, rng) for value, *values in zip(mine, *theirs, strict=True))
        return sum(abs(place - wanted) for place, wanted in zip(places, ranks, strict=True))

    return min(drawn, key=miss)


def features(option: str, options: Iterable[str]) -> tuple[int, ...]:
    """Return an option's features that need no run: rows and first rows shared with other options, length, failure."""
    rows, others = option.splitlines(), [one.splitlines() for one in options]
    shared, starts = sum(len({*rows} & {*one}) for one in others), sum(rows[0] == one[0] for one in others)
    return shared, starts, len(option), rows[-1] == "it fails"


def rank(value: int, others: Iterable[int], rng: Random) -> int:
    """Return the position of a value among others; equal values are ordered at random."""
    return sum(other < value or (other == value and rng.random() < 0.5) for other in others)


def tokens_under(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask how many tokens a request would get if a setting were different."""
    for name, before, value, run in facts.settings:
        for step in range(1, min(len(run.steps), len(facts.base.steps))):
            for share in facts.base.steps[step]["scheduled"] + run.steps[step]["scheduled"]:
                number = run.share(step, share["id"])
                if number != facts.base.share(step, share["id"]):
                    asked = f"How many tokens does `schedule_step` give {share['id']} in step {step}?"
                    text = f"{again(name, before, value)} {asked}"
                    yield VivaQuestion("setting", text, number, str(number), run.around(step))


def ends_under(facts: Facts, rng: Random) -> Iterator[VivaQuestion]:
    """Ask when a request would end if a setting were different."""
    ends = ends_of(facts.base)
    for name, before, value, run in facts.settings:
        for request, step in ends_of(run).items():
            if step != ends.get(request):
                text = f"{again(name, before, value)} In which step does {request} end?"
                yield VivaQuestion("end", text, step, f"step {step}", run.around(step))


def again(name: str, before: int, value: int) -> str:
    return f"Run the same requests from the start with `{name}={value}` in place of {before}."


def ends_of(run: Played) -> dict[str, int]:
    return {one[0]: step["step"] for step in run.steps for one in step["finished"]}


KINDS: Sequence[Callable[[Facts, Random], Iterator[VivaQuestion]]] = (
    *(stops, deleted_lines, swapped_traces, tokens_under, values, first_steps, ends_under, blocks),
)


def all_candidates(facts: Facts, rng: Random) -> list[list[VivaQuestion]]:
    """Return the candidates of each kind, without repeated texts."""
    kinds = ({one.text: one for one in kind(facts, rng)} for kind in KINDS)
    return [list(one.values()) for one in kinds]
