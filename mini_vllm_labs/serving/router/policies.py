"""Chooses a request's replica according to a policy, and finds a prompt's prefix without a tokenizer.

Each replica has a separate prefix cache, so a conversation whose turns go to three replicas is computed three times.
The router therefore remembers where it has sent each prefix. It cannot see a replica's evictions; like a cache, it
forgets the least recently used prefixes.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

CHARACTERS_PER_BLOCK = 64  # roughly the text in one 16-token block
TOKENS_PER_BLOCK = 16
Prefix = Sequence[int]  # the chained key of each full block in a prompt: equal keys mean equal text up to that point


class Router:
    """Chooses among the replicas that are alive."""

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        """Choose a replica and remember the choice. `loads` maps replicas to their numbers of unfinished requests."""
        raise NotImplementedError

    def forget(self, replica: int) -> None:
        """Record that a replica has lost its cache."""


class RoundRobin(Router):
    """Chooses each replica in turn, regardless of load."""

    def __init__(self) -> None:
        self._turns = count()

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        return sorted(loads)[next(self._turns) % len(loads)]


class LeastLoaded(Router):
    """Chooses the replica with the fewest unfinished requests."""

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        return min(loads, key=lambda replica: (loads[replica], replica))


class PrefixAware(Router):
    """Chooses the replica whose cache has the longest matching prefix; ties go to the least loaded.

    A replica with over `max_imbalance` more unfinished requests than the least loaded one is skipped, because
    recomputing a prefix is cheaper than a long wait. (SGLang's router: `balance_abs_threshold`.)
    """

    def __init__(self, max_blocks_known: int = 1 << 16, max_imbalance: int = 16) -> None:
        self.max_blocks_known = max_blocks_known
        self.max_imbalance = max_imbalance
        self._known: dict[int, OrderedDict[int, None]] = {}

    def choose(self, prefix: Prefix, loads: Mapping[int, int]) -> int:
        least = min(loads.values())
        near = [replica for replica, load in loads.items() if load - least <= self.max_imbalance]
        chosen = min(near, key=lambda replica: (-self.num_known_blocks(prefix, replica), loads[replica], replica))
        self._remember(prefix, chosen)
        return chosen

    def forget(self, replica: int) -> None:
        self._known.pop(replica, None)

    def num_known_blocks(self, prefix: Prefix, replica: int) -> int:
        """Count the leading blocks of a prefix that have already been sent to a replica."""
        known: Mapping[int, None] = self._known.get(replica, {})
        return next((number for number, key in enumerate(prefix) if key not in known), len(prefix))

    def _remember(self, prefix: Prefix, replica: int) -> None:
        known = self._known.setdefault(replica, OrderedDict())
        # Back to front, so that the last blocks of a prefix are forgotten first, as in the block pool.
        for key in reversed(prefix):
            known[key] = None
            known.move_to_end(key)
        while len(known) > self.max_blocks_known:
            known.popitem(last=False)


def chained(blocks: Sequence[object]) -> list[int]:
    """Return the keys of a prompt's whole blocks; each key also covers all earlier blocks."""
    keys, key = [], 0
    for block in blocks:
        key = hash((key, block))  # the hash differs between processes, but keys never leave this process
        keys.append(key)
    return keys


def prefix_of_bytes(body: bytes) -> list[int]:
    """Return the keys of the prompt in a body's bytes, or an empty list if the body is not JSON."""
    try:
        return prefix_of(json.loads(body))
    except (ValueError, RecursionError):  # RecursionError is raised for deeply nested JSON
        return []


def prefix_of(body: Any) -> list[int]:
    """Return the keys of a prompt's whole blocks, or an empty list for a body without a prompt.

    The function does not validate the body.

    Prompts with different salts have different keys, because they never share a cached block.
    """
    if not isinstance(body, Mapping):
        return []
    if "messages" in body:
        blocks = _cut("".join(_texts(body["messages"])), CHARACTERS_PER_BLOCK)
    else:
        blocks = _blocks_of_prompt(body.get("prompt", ""))
    return chained([("salt", str(body.get("cache_salt"))), *blocks])[1:]


def _blocks_of_prompt(prompt: Any) -> list[object]:
    """Return the blocks of a text or of token ids; if there are several prompts, use the first."""
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return _cut(prompt, CHARACTERS_PER_BLOCK)
    is_tokens = isinstance(prompt, list) and all(type(token) is int for token in prompt)
    return _cut(tuple(prompt), TOKENS_PER_BLOCK) if is_tokens else []


def _texts(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, Mapping):
            yield f"{message.get('role')}\n{message.get('content')}\n"


def _cut(prompt: str | tuple[int, ...], size: int) -> list[object]:
    """Cut a prompt into whole blocks; an incomplete last block may still grow in the next turn."""
    return [prompt[start : start + size] for start in range(0, len(prompt) - size + 1, size)]
