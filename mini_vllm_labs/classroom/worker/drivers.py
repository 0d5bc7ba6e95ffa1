"""Defines the drivers, which run questions on a learner's files in a worker and on the reference in the judge."""

import importlib
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from itertools import islice, pairwise
from random import Random
from typing import Any

from mini_vllm_labs.classroom.worker.answers import Json
from mini_vllm_labs.classroom.worker.device import on_a_device
from mini_vllm_labs.classroom.worker.script import replay
from mini_vllm_labs.grading.plays.earlier_answers import earlier_answers
from mini_vllm_labs.grading.plays.interruption import FIRST, LAST, interrupted
from mini_vllm_labs.runs.sandbox.errors import UnusableAnswerError

NUM_IN_BETWEEN = 4


def rejection_sample(
    files: Mapping[int, Any], cases: list[tuple[Sequence[int], list[Any], list[Any], list[float], int, int]]
) -> list[Json]:
    """Count how often each case returns each list of tokens, as the last token's random number moves over a grid.

    A grid is needed because tokens may divide the interval from 0 to 1 in any order. Only the row of the last token
    receives the grid's numbers. For the smallest and the largest number, any result that the grid produces is allowed.
    """
    import torch

    answers: list[Json] = []
    for drafts, draft_probs, target_probs, keeps, last_row, grid in cases:
        shape = (-1, len(target_probs[0]))
        tensors = [torch.tensor(rows, dtype=torch.float64).reshape(shape) for rows in (draft_probs, target_probs)]
        before = [tensor.clone() for tensor in tensors]
        counts: Counter[tuple[int, ...]] = Counter()
        ends = set[tuple[int, ...]]()
        for choice in (*((cell + 0.5) / grid for cell in range(grid)), 0.0, 1 - 2**-53):
            draws = [(keep, choice if row == last_row else 0.5) for row, keep in enumerate(keeps)]
            tokens = list(on_a_device(files[7].rejection_sample, drafts, *tensors, draws))
            if any(isinstance(token, torch.Tensor) for token in tokens):
                raise UnusableAnswerError("Your code returned tensors, but token ids must be plain numbers.")
            found = tuple(map(operator.index, tokens))
            if 0 < choice < 1 - 2**-53:
                counts[found] += 1
            else:
                ends.add(found)
        is_unchanged = all(bool(torch.equal(one, other)) for one, other in zip(tensors, before, strict=True))
        shares = sorted([list(tokens), count] for tokens, count in counts.items())
        answers.append([shares, list(drafts), is_unchanged, ends <= counts.keys()])
    return answers


def table(files: Mapping[int, Any], phase: int, cases: list[tuple[str, Sequence[Any]]]) -> list[Json]:
    """Return the observations of each case (a play and its arguments), as in a phase's graded tests.

    Some cases are then run again, with a different case run between two of their calls.
    """
    # Imported here, because phase 9's plays load numpy, which takes a third of a worker's start-up time, and few
    # workers need it.
    plays = importlib.import_module(f"mini_vllm_labs.grading.plays.phase{phase}_plays")

    def played(case: tuple[str, Sequence[Any]]) -> Json:
        return described(getattr(plays, case[0])(files[phase], *case[1]))

    answers, rng = list(map(played, cases)), Random(len(cases))
    for case, other in islice(pairwise(cases), NUM_IN_BETWEEN):
        with interrupted(files[phase], rng.randint(FIRST, LAST), partial(played, other)):
            answers.append(played(case))
    return answers


def play_together(files: Mapping[int, Any], *arguments: Any) -> list[Json]:
    """Run a scenario on a whole engine, which is present in only one jail (`judge/needed_files.py`)."""
    from mini_vllm_labs.classroom.worker.scenario import play_together

    return play_together(files, *arguments)


def described(played: Json | Iterator[str | dict[str, Json]]) -> Json:
    """Return a play's observations; if it makes several calls, they are keyed by call number."""
    if not isinstance(played, Iterator):
        return played
    steps = filter(lambda step: isinstance(step, dict), played)
    return {f"{number}. {name}": value for number, step in enumerate(steps) for name, value in dict(step).items()}


def watching(driver: Callable[..., list[Json]]) -> Callable[..., list[Json]]:
    """Wrap a driver to append one item: the first answer that does not belong to its caller, or else None."""

    @wraps(driver)
    def watched(files: Mapping[int, Any], *arguments: Any) -> list[Json]:
        with ExitStack() as stack:
            every = [stack.enter_context(earlier_answers(file)) for file in files.values()]
            for earlier in every:
                stack.enter_context(earlier.watched())
            answers = driver(files, *arguments)
        changed = next((str(earlier.changed) for earlier in every if earlier.changed), None)
        return [*answers, {"an answer that is not its caller's own": changed}]

    return watched


DRIVERS: Mapping[str, Callable[..., list[Json]]] = {
    **{driver.__name__: watching(driver) for driver in (replay, rejection_sample, table)},
    "play_together": play_together,
}
