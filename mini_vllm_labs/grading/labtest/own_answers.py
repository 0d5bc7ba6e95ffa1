"""Fails a graded test if one of its answers does not belong to its caller alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mini_vllm_labs.grading.labtest.expect import MAX_CHARACTERS, expect_equal, lab_failure
from mini_vllm_labs.grading.labtest.failure import Failed
from mini_vllm_labs.grading.plays.earlier_answers import Changed, EarlierAnswers
from mini_vllm_labs.grading.plays.own_containers import RETURNED, Shared

watched_key = pytest.StashKey[dict[str, EarlierAnswers]]()


@contextmanager
def all_kept(item: pytest.Function) -> Iterator[None]:
    """Fail a test in which a call changes an earlier answer or returns it again, before reporting any other failure."""
    every, names = (
        item.config.stash.get(watched_key, {}),
        [getattr(one, "__name__", "") for one in item.funcargs.values()],
    )
    earlier = next((every[name] for name in names if name in every), None)
    # the engine may change answers that it has received
    if earlier is None or item.path.name.endswith("_in_an_engine.py"):
        yield
        return
    try:
        with earlier.watched():
            yield
    except BaseException:
        if earlier.changed is None:
            raise
    try:
        tell_changed(earlier.changed)
    except Failed as failed:
        raise failed from None  # a learner should see only this exception


def tell_changed(changed: Changed | Shared | None) -> None:
    if isinstance(changed, Shared):
        lab_failure(
            rule="An answer belongs to the caller: each call returns a new list, dict or tensor."
            if changed.did == RETURNED
            else "A list of a request belongs to it alone: each call makes a new one.",
            situation=f"{changed.function} {changed.did} {changed.value}",
            expected=f"a new {changed.kind}",
            yours=f"the same {changed.kind} is {changed.place}",
            hint="where does your code make this container? If one caller adds an entry, who sees it?",
        )
    if changed is not None:
        after, before = str(changed.after), str(changed.before)
        is_long = max(len(after), len(before)) > MAX_CHARACTERS and after != before
        expect_equal(
            after if is_long else changed.after,  # for long texts, the report shows only the part that differs
            before if is_long else changed.before,
            rule="An answer belongs to the caller: a later call does not change it.",
            situation=f"an earlier answer of {changed.function}, before and after a call of {changed.by}",
            hint=f"does {changed.function} make a new container in each call, or return one that it keeps?",
        )
