"""Draws the eight questions of a viva with a seed, from runs of a learner's files."""

from collections.abc import Sequence
from random import Random

from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.runs.workloads.small_workload import make_workload
from mini_vllm_labs.viva import NUM_QUESTIONS
from mini_vllm_labs.viva.files import Files
from mini_vllm_labs.viva.questions import all_candidates, gather
from mini_vllm_labs.viva.runs import Played, RunPlayer, first_change, whole_decision
from mini_vllm_labs.viva.sheet import Sheet, VivaQuestion

LEAST_KINDS = 4
# so that at most a third of guesses are right, however much the learner knows about the run
LEAST_ANSWERS = 3


def make_sheet(files: Files, seed: int, requests: int = 8) -> Sheet:
    """Draw a sheet. Raises `ValueError` if the run of the files fails, is wrong, or yields too few questions."""
    with RunPlayer(seed, requests) as player:
        base = player.play(files, watched=True)
        require_right(files, base, player)
        rng = Random(seed)
        found = drawn(all_candidates(gather(files, base, player, rng), rng), rng)
    num_kinds = len({one.kind for one in found})
    if len(found) < NUM_QUESTIONS or num_kinds < LEAST_KINDS:
        raise ValueError(
            f"a run of {len(base.steps)} steps is too short: it yields {len(found)} questions of {num_kinds} kinds; "
            f"increase requests above {requests}, or change the seed"
        )
    return Sheet(seed, requests, setup_of(base, seed, requests), files.digests, base.rows, found)


def setup_of(base: Played, seed: int, requests: int) -> list[str]:
    """Return one line with the run's settings, and one line for each request."""
    settings = ", ".join(f"{name}={value}" for name, value in base.settings.items())
    lines, firsts = [settings], dict[tuple[int, ...], str]()
    for one in make_workload(seed, requests):
        start = tuple(one.prompt_token_ids[: base.settings["block_size"]])
        same = f" that begins like {firsts[start]}'s" if start in firsts else ""
        firsts.setdefault(start, one.request_id)
        lines.append(
            f"{one.request_id} arrives in step {one.arrival_time:g} with a prompt of {len(one.prompt_token_ids)} "
            f"tokens{same}, for {one.max_tokens} new ones"
        )
    return lines


def require_right(files: Files, base: Played, player: RunPlayer) -> None:
    """Raise `ValueError` unless the run ended well and, if there is a reference, made the same decisions."""
    if base.problem:
        raise ValueError(f"a viva needs a run without errors, but in step {len(base.steps)}, {base.problem}")
    if solutions_exist():
        reference = player.play(files, lineup=files.lineup.replace("starter", "solution"))
        wrong = first_change(base, reference, whole_decision)
        if wrong is not None:
            raise ValueError(
                f"a viva needs a run that obeys the rules, but step {wrong} is wrong (see mini-vllm oracle)"
            )


def drawn(kinds: Sequence[Sequence[VivaQuestion]], rng: Random, number: int = NUM_QUESTIONS) -> list[VivaQuestion]:
    """Draw questions of as many kinds as possible. The right answer is drawn first, and then a question that has this
    answer.

    So an answer is not more probable just because it is frequent in the run.
    """
    usable = [kind for kind in kinds if len({one.sameness for one in kind}) >= LEAST_ANSWERS]
    found = list[VivaQuestion]()
    for _ in range(number):
        for kind in usable:
            used = {one.sameness for one in found if one.kind == kind[0].kind}
            groups: dict[str, list[VivaQuestion]] = {}
            for one in kind:
                groups.setdefault(one.sameness, []).append(one)
            fresh = [sameness for sameness in groups if sameness not in used]
            if fresh and len(found) < number:
                found.append(rng.choice(groups[rng.choice(fresh)]))
    return rng.sample(found, len(found))
