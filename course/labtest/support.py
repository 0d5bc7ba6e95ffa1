"""Small parts that the graded tests put around the learner's code. Nothing here is to be filled in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import NoReturn

import pytest

from course.sandbox.errors import OutOfTime
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.sampling_params import SamplingParams
from mini_vllm.seams.interfaces import Clamp, KVCacheManager

MOST_LINES = 12


def make_request(
    request_id: str,
    num_prompt_tokens: int,
    *,
    num_computed_tokens: int = 0,
    num_output_tokens: int = 0,
    max_tokens: int = 100,
    priority: int = 0,
    arrival_time: float = 0.0,
    token_ids: Sequence[int] | None = None,
) -> Request:
    """Return a request; one with computed tokens is RUNNING, any other WAITING."""
    prompt = list(token_ids) if token_ids is not None else list(range(1000, 1000 + num_prompt_tokens))
    request = Request(
        request_id, prompt, SamplingParams(max_tokens=max_tokens), priority=priority, arrival_time=arrival_time
    )
    request.all_token_ids += range(5000, 5000 + num_output_tokens)
    request.num_computed_tokens = num_computed_tokens
    if num_computed_tokens:
        request.status = RequestStatus.RUNNING
    return request


def fields_of(request: Request) -> dict[str, object]:
    """Return a copy of everything a request consists of, by name."""
    return {name: copy(getattr(request, name)) for name in Request.__slots__}


def waiting_queue(requests: Iterable[Request]) -> FCFSRequestQueue:
    """Return a first-come-first-served queue of the requests."""
    queue = FCFSRequestQueue()
    for request in requests:
        queue.add_request(request)
    return queue


class SlotCountingKV:
    """A KV memory that only counts: `num_slots` slots, one per token. It also writes down every call."""

    block_size = 1

    def __init__(self, num_slots: int) -> None:
        self.num_usable_blocks = num_slots
        self.num_free_blocks = num_slots
        self.calls: list[str] = []
        self._num_held: dict[str, int] = {}

    def get_computed_blocks(self, request: Request) -> list[int]:
        return []

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        fits = num_new_tokens <= self.num_free_blocks
        self.calls.append(f"allocate_slots({request.request_id}, {num_new_tokens}) -> {'[...]' if fits else 'None'}")
        if not fits:
            return None
        self.num_free_blocks -= num_new_tokens
        self._num_held[request.request_id] = self._num_held.get(request.request_id, 0) + num_new_tokens
        return list(range(num_new_tokens))

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.calls.append(f"free({request.request_id})")
        self.num_free_blocks += self._num_held.pop(request.request_id, 0)

    def block_ids(self, request_id: str) -> list[int]:
        return list(range(self._num_held.get(request_id, 0)))

    def free_block_ids(self) -> list[int]:
        return list(range(self.num_free_blocks))

    def ref_counts(self) -> dict[int, int]:
        return {}


class ClampChunks:
    """A chunk policy that is nothing but the learner's `clamp` with a threshold."""

    def __init__(self, clamp: Clamp, threshold: int = 0) -> None:
        self.clamp = clamp
        self.threshold = threshold

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.clamp(request.num_tokens - num_computed_tokens, token_budget, self.threshold)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return True

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return num_computed_tokens == request.num_tokens


def expect_equal(yours: object, expected: object, *, rule: str, situation: str, hint: str) -> None:
    """Go on if the two are equal; else end the test with a message that explains itself."""
    if yours != expected:
        lab_failure(rule=rule, situation=situation, expected=expected, yours=yours, hint=hint)


def expect_rows(rows: Mapping[str, tuple[object, object]], *, rule: str, situation: str, hint: str) -> None:
    """Go on if each row's two values, yours and expected, are equal; else show all rows as a table."""
    yours = {what: row[0] for what, row in rows.items()}
    expected = {what: row[1] for what, row in rows.items()}
    expect_equal(yours, expected, rule=rule, situation=situation, hint=hint)


def lab_failure(*, rule: str, situation: str, expected: object, yours: object, hint: str) -> NoReturn:
    """End the test: the rule that broke, the situation, expected beside yours, and a question."""
    indented = "\n".join(f"  {line}" for line in situation.strip().splitlines())
    if isinstance(expected, Mapping) and isinstance(yours, Mapping):
        comparison = _table(expected, yours)
    else:
        comparison = f"  expected   {expected}\n  yours      {yours}"
    pytest.fail(f"{rule}\n\n{indented}\n\n{comparison}\nHint: {hint}", pytrace=False)


def _table(expected: Mapping[object, object], yours: Mapping[object, object]) -> str:
    """Return one line per entry of either mapping, with a mark where they differ."""
    lines = [("", "expected", "yours", "")]
    for key in (*expected, *(key for key in yours if key not in expected)):
        ours, theirs = expected.get(key, "-"), yours.get(key, "-")
        lines.append((str(key), str(ours), str(theirs), "" if ours == theirs else "<-- differs"))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        f"  {key:<{widths[0]}}   {ours:<{widths[1]}}   {theirs:<{widths[2]}}  {mark}".rstrip()
        for key, ours, theirs, mark in lines
    )


def as_ints(result: object, function: str) -> list[int]:
    """Return the numbers in a result, whatever sequence they came in; explain a result that has none."""
    if not isinstance(result, Iterable):
        lab_failure(
            rule=f"{function} must return a list of numbers.",
            situation="It returned something that cannot be read as a list.",
            expected="a list",
            yours=repr(result),
            hint="does every way through your function end in a `return`?",
        )
    return [int(number) for number in result]


def difference(
    rule: str,
    *,
    before: Sequence[str],
    expected: Mapping[str, object],
    yours: Mapping[str, object],
    hint: str,
    calls: Sequence[str] = (),
) -> str:
    """Compare `yours` with `expected`, label by label; return a report for the learner, empty if all are equal."""
    if all(yours[label] == expected[label] for label in expected):
        return ""
    table = _table({key: expected[key] for key in expected}, {key: yours[key] for key in expected})
    if max(len(line) for line in table.splitlines()) > 120:
        table = _stack(expected, yours)
    lines = [rule, "", *(f"  {line}" for line in before), "", table]
    if calls:
        lines += ["", "  your calls, in order:", *(f"    {call}" for call in calls)]
    return "\n".join([*lines, f"Hint: {hint}"])


def _stack(expected: Mapping[str, object], yours: Mapping[str, object]) -> str:
    """Return what `_table` does for values that are too long to stand side by side."""
    width = max(len(label) for label in expected)
    lines: list[str] = []
    for label, wanted in expected.items():
        if yours[label] == wanted:
            lines.append(f"  {label:{width}}  as expected  {wanted}")
        else:
            lines.append(f"  {label:{width}}  expected     {wanted}")
            lines.append(f"  {'':{width}}  yours        {yours[label]}    <-- differs")
    return "\n".join(lines)


def compare(
    rule: str,
    *,
    before: Sequence[str],
    expected: Mapping[str, object],
    yours: Mapping[str, object],
    hint: str,
    calls: Sequence[str] = (),
) -> None:
    """Fail with the report of `difference` if there is one."""
    report = difference(rule, before=before, expected=expected, yours=yours, hint=hint, calls=calls)
    if report:
        pytest.fail(report, pytrace=False)


def fail_with_smallest(reports: Iterable[str]) -> None:
    """Fail with the shortest of the reports that are not empty, so that the learner reads the simplest case."""
    failures = [report for report in reports if report]
    if failures:
        count = f"({len(failures)} of the random cases differ; this is the smallest.)\n"
        pytest.fail(count + min(failures, key=len), pytrace=False)


@contextmanager
def explained(before: Sequence[str], calls: Sequence[str] = (), hint: str = "") -> Iterator[None]:
    """Let an exception of the learner's code carry the situation in which it happened, and perhaps a hint.

    The hint is for a `ValueError` or `IndexError`; other exceptions have their own.
    """
    try:
        yield
    except NotImplementedError:
        raise
    except (Exception, OutOfTime) as error:
        lines = ["The situation:", *before[-MOST_LINES:]]
        if calls:
            lines += ["Your calls, in order:" if len(calls) <= MOST_LINES else "Your last calls:", *calls[-MOST_LINES:]]
        error.add_note("\n  ".join(lines))
        if hint and isinstance(error, ValueError | IndexError):
            error.add_note(f"Hint: {hint}")
        raise
