"""Finds returned containers that are also used elsewhere.

Shared containers do no harm until somebody changes them. `labs/README.md` therefore asks for a new container each time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

from mini_vllm.core.request import Request
from mini_vllm_labs.runs.sandbox.frames import short

ATOMS = frozenset((int, float, str, bytes, bool, type(None)))
NUM_KEPT = 4  # number of containers per function
ON_PURPOSE = (
    "PagedKVCacheManager.block_ids",
    "HostBlockStore.get",
    "RegexTokenMasks.bitmask_row",
    "RegexTokenMasks.next_states",
)  # these return what they have stored
PASSES_ON = "SpeculativeScheduling.usable_hit_blocks"  # may return its argument
RETURNED, GAVE = "returned", "gave a request"
LISTS = ("spec_token_ids", "block_hashes", "all_token_ids")  # a request's lists


class Shared(NamedTuple):
    """A function, the other place that uses its container, and the container's kind and text.

    `did` is what the function did with the container: `RETURNED`, or `GAVE` for a list that belongs to a request.
    """

    function: str
    place: str
    kind: str
    value: str
    did: str

    def __str__(self) -> str:
        return f"{self.function} {self.did} {self.value}. The same {self.kind} is {self.place}."


class OwnContainers:
    """Remembers the containers that a phase has returned."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Any]] = {}

    def clear(self) -> None:
        """Forget all containers."""
        self._kept.clear()

    def check(self, name: str, found: object, given: Sequence[object], before: Mapping[int, object]) -> Shared | None:
        """Return the first container in an answer or a request that is also used elsewhere; remember the other
        containers.

        `before` contains the requests' lists before the call.
        """
        lists = [one for key, one in lists_of(given).items() if isinstance(one, list) and one is not before.get(key)]
        own = [] if name in ON_PURPOSE else list(containers(found))
        if not own and not lists:
            return None
        lent = {} if name == PASSES_ON or not own else {id(one): one for one in lent_by(given)}
        for number, one in enumerate([*own, *lists]):
            did = RETURNED if number < len(own) else GAVE
            place = next((f"what {before} before" for before, kept in self._kept.items() if one in Same(kept)), "")
            if one in Same(own[:number]):
                place = "another part of the same answer"
            elif number < len(own) and id(one) in lent and not hasattr(one, "tolist"):
                place = "an argument of the call"
            if place and name != PASSES_ON:
                return Shared(name, place, type(one).__name__, short(one), did)
        for did, new in ((RETURNED, own), (GAVE, lists)):
            kept = self._kept.setdefault(f"{name} {did}", [])
            kept += new
            del kept[:-NUM_KEPT]
        return None


class Same:
    """A collection that is searched by identity."""

    def __init__(self, members: Sequence[object]) -> None:
        self._members = members

    def __contains__(self, wanted: object) -> bool:
        return any(one is wanted for one in self._members)


def containers(value: object) -> Iterator[Any]:
    """Yield the value if it is a list, dict, set, tensor or array; also those in lists and tuples."""
    if isinstance(value, list | dict | set) or getattr(value, "ndim", 0) != 0:
        yield value
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | dict | set | tuple):
        for one in value:
            yield from containers(one)


def lists_of(given: Sequence[object]) -> dict[int, object]:
    """Return the lists of the requests among the arguments, keyed by numbers that identify the request and the list."""
    requests = [one for one in given if isinstance(one, Request)]
    return {
        3 * id(request) + number: getattr(request, name) for request in requests for number, name in enumerate(LISTS)
    }


def lent_by(value: object) -> Iterator[object]:
    """Yield the containers that belong to the arguments of a call, including those in batches and requests."""
    left, seen = list[Any]([value]), set[int]()
    while left:
        one = left.pop()
        if type(one) in ATOMS or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, list | dict | set):
            yield one
        if isinstance(one, Sequence) and one and not isinstance(one[0], int | float | str | bytes):
            left.extend(one)
        elif names := names_of_fields(type(one)):  # type: ignore[arg-type]  # a class is hashable
            left += [getattr(one, name) for name in names]


@cache
def names_of_fields(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; for another class, return an empty tuple."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
