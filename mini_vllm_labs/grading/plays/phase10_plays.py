"""Runs phase 10's cases for the graded tests and the judge; each function returns its observations."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.gates.connector import BlockTransfer, KVConnectorMetadata
from mini_vllm_labs.grading.plays.support import with_a_past

if TYPE_CHECKING:
    from torch import Tensor

Seen = dict[str, object]  # plain JSON
Calls = Sequence[Sequence[Any]]
ENDS = ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_ABORTED", "FINISHED_ERROR")
NUM_CACHES, NUM_BLOCKS = 4, 8
MAX_SHOWN = 40
PREFIX = "req-"  # shared by all ids


def hash_of(name: str) -> bytes:
    """Return a block's hash, which is as long as a real one; hashes differ only in the middle."""
    return name.encode().center(32, b".")


def name_of(block_hash: bytes) -> str:
    return bytes(block_hash).decode().strip(".")


def expanded(stored: Sequence[str]) -> list[str]:
    """Return the names of blocks; "A0-99" is short for A0 to A99."""
    found = list[str]()
    for name in stored:
        first, _, last = name.partition("-")
        found += [f"{name[0]}{index}" for index in range(int(first[1:]), int(last) + 1)] if last else [name]
    return found


def table_of(given: Any) -> list[int]:
    """Return a block table; "5-99" is short for blocks 5 to 99."""
    if not isinstance(given, str):
        return list(given)
    first, last = map(int, given.split("-"))
    return list(range(first, last + 1))


def stores(phase10: ModuleType, max_bytes: int, calls: Calls) -> Seen:
    """Make calls to a store; report each answer and the final contents."""
    import torch

    store, seen, names = phase10.HostBlockStore(max_bytes), dict[str, object](), set[str]()
    for number, (what, given, size) in enumerate(calls, start=1):
        names |= set(given)
        if what == "put":
            # the number of bytes differs from both the number of rows and the number of elements
            block = torch.full((size // 4, 2), ord(given), dtype=torch.int16)
            answer: object = store.put(hash_of(given), block)
        elif what == "lookup":
            hashes = [hash_of(name) for name in given]
            answer = _unless_changed(int(store.lookup(hashes)), list(map(name_of, hashes)), given)
        else:
            answer = _name(store.get(hash_of(given)))
        seen[f"{number}. {what} {given}"] = answer
    return seen | {"in the end": {name: _name(store.get(hash_of(name))) for name in sorted(names)}}


def many_blocks(phase10: ModuleType, num_blocks: int) -> Seen:
    """Fill a store with `num_blocks` blocks, look them all up as a prefix, and put in one more block."""
    import torch

    block, names = torch.zeros(2, dtype=torch.int16), [f"A{n}" for n in range(num_blocks)]
    store, hashes = phase10.HostBlockStore(num_blocks * block.nbytes), list(map(hash_of, names))
    for block_hash in hashes:
        store.put(block_hash, block)
    num_found = int(store.lookup(hashes))
    store.put(hash_of("B0"), block)
    return {"blocks found": num_found, "found after one more": int(store.lookup(hashes))}


def _unless_changed(answer: object, now: Sequence[object], before: Sequence[object]) -> object:
    """Return an answer, or the new contents of an argument list if the call has changed it."""
    return answer if [*now] == [*before] else f"changed the list that it was given to {[*now]}"


def _name(block: "Tensor | None") -> str | None:
    return None if block is None else chr(int(block.flatten()[0]))


class GivenStore:
    """A store whose contents come from a case. The store records uses; a `put` evicts the blocks that the case
    names."""

    def __init__(self, blocks: Mapping[str, Any], forgets: Mapping[str, str] | None = None) -> None:
        self.blocks = {hash_of(name): block for name, block in blocks.items()}
        self.forgets = forgets or {}
        self.uses: list[bytes] = []

    def lookup(self, block_hashes: Sequence[bytes]) -> int:
        missing = [place for place, block_hash in enumerate(block_hashes) if block_hash not in self.blocks]
        num_found = min(missing, default=len(block_hashes))
        self.uses += [*block_hashes][:num_found][::-1]
        return num_found

    def get(self, block_hash: bytes) -> Any:
        return self.blocks.get(block_hash)

    def put(self, block_hash: bytes, block: Any) -> None:
        self.blocks.pop(hash_of(self.forgets.get(name_of(block_hash), "")), None)
        self.blocks[block_hash] = block
        self.uses.append(block_hash)


def request_of(name: str, num_tokens: int, block_size: int) -> Request:
    """Make a request whose block i has the hash `name` + i. All tokens except the first are output tokens."""
    request = Request(PREFIX + name, [0])
    request.all_token_ids.extend(range(1, num_tokens))
    request.block_hashes = [hash_of(f"{name}{index}") for index in range(num_tokens // block_size)]
    return with_a_past(Random(name), request)


def _shown(transfers: Mapping[str, Sequence[BlockTransfer]]) -> dict[str, object]:
    return {name.removeprefix(PREFIX): _in_short(of_request) for name, of_request in sorted(transfers.items())}


def _in_short(transfers: Sequence[BlockTransfer]) -> object:
    """Return the transfers; if there are many, only the first, the last, their number and how many are consecutive."""
    shown = [(name_of(block_hash), int(block_id)) for block_hash, block_id in transfers]
    if len(shown) <= MAX_SHOWN:
        return list(map(list, shown))
    steps = [(int(b[0][1:]) - int(a[0][1:]), b[1] - a[1]) for a, b in pairwise(shown)]
    return [[*shown[0]], f"{len(shown)} blocks, {steps.count(steps[0]) + 1} of them in a row", [*shown[-1]]]


def matches(phase10: ModuleType, block_size: int, stored: Sequence[str], asked: Calls) -> Seen:
    """Match requests, each (id, tokens, computed tokens), with a connector; report its answers.

    A fourth value names blocks that the store evicted before the call.
    """
    store = GivenStore(dict.fromkeys(expanded(stored), 1))
    connector, seen = phase10.BlockStoreConnector(store, block_size), dict[str, object]()
    for number, (name, num_tokens, num_computed_tokens, *forgotten) in enumerate(asked, start=1):
        for block in forgotten:
            del store.blocks[hash_of(block)]
        request = request_of(name, num_tokens, block_size)
        hashes = [*request.block_hashes]
        num_new, is_async = connector.get_num_new_matched_tokens(request, num_computed_tokens)
        label = f"{number}. {name}, {num_tokens} tokens, {num_computed_tokens} computed"
        seen[label] = _unless_changed([int(num_new), bool(is_async)], request.block_hashes, hashes)
    return seen


def loads(phase10: ModuleType, block_size: int, stored: Sequence[str], calls: Calls) -> Seen:
    """Match requests, allocate their blocks and plan steps; report each step's loads."""
    store = GivenStore(dict.fromkeys(expanded(stored), 1))
    connector, seen = phase10.BlockStoreConnector(store, block_size), dict[str, object]()
    told: dict[str, tuple[Request, int]] = {}
    for number, (what, name, given) in enumerate(calls, start=1):
        if what == "ask":
            request = request_of(name, given[0], block_size)
            told[name] = request, connector.get_num_new_matched_tokens(request, given[1])[0]
        elif what == "allocate":
            connector.update_state_after_alloc(told[name][0], table := table_of(given), told[name][1])
            seen[f"{number}. allocate {name}"] = _unless_changed(None, table, table_of(given))
        else:
            seen[f"{number}. step"] = connector.build_connector_meta()
    # Read at the end, because a step in flight still needs its metadata while later ones are planned.
    return {label: _shown(one.loads) if isinstance(one, KVConnectorMetadata) else one for label, one in seen.items()}


def ends(phase10: ModuleType, block_size: int, saves_ended: bool, stored: Sequence[str], calls: Calls) -> Seen:
    """End and preempt requests; report which blocks are held and what each step saves."""
    store = GivenStore(dict.fromkeys(expanded(stored), 1))
    connector = phase10.BlockStoreConnector(store, block_size, saves_ended)
    seen: Seen = {}
    for number, (what, name, given) in enumerate(calls, start=1):
        if what == "step":
            seen[f"{number}. step"] = connector.build_connector_meta()
            continue
        num_tokens, num_computed_tokens, blocks = given
        request, table = request_of(name, num_tokens, block_size), table_of(blocks)
        if what == "preempt":
            answer = connector.request_preempted(request, table, num_computed_tokens)
        else:
            request.status, request.num_computed_tokens = RequestStatus[what], num_computed_tokens
            answer = bool(connector.request_finished(request, table))
        seen[f"{number}. {what} {name}"] = _unless_changed(answer, table, table_of(blocks))
    return {
        label: [_shown(one.saves), _shown(one.loads)] if isinstance(one, KVConnectorMetadata) else one
        for label, one in seen.items()
    }


def leaves(phase10: ModuleType, num_requests: int) -> Seen:
    """Match requests, admit only every second one, and end them all; report what they leave behind."""
    from mini_vllm_labs.grading.plays.work import left_behind

    connector = phase10.BlockStoreConnector(GivenStore({}), 4)

    def use(name: str) -> Request:
        request = request_of(name, 12, 4)
        connector.get_num_new_matched_tokens(request, 0)
        if name[-1] in "02468":
            connector.update_state_after_alloc(request, [7, 5, 9], 0)
            request.num_computed_tokens, request.status = 11, RequestStatus.FINISHED_STOPPED
        else:  # the request never ran
            request.status = RequestStatus.FINISHED_ABORTED if name[-1] in "135" else RequestStatus.FINISHED_ERROR
        connector.request_finished(request, [7, 5, 9])
        connector.build_connector_meta()
        return request

    return left_behind(phase10, use, connector, num_requests=num_requests)


def moves(phase10: ModuleType, stored: Sequence[str], forgets: Mapping[str, str], steps: Calls) -> Seen:
    """Run steps, each (loads, saves) followed by a forward pass that changes every block.

    Block b of cache c holds the number 10 * b + c, and stored block n holds the numbers 100 * n + c. The caches appear
    to be on a GPU, and stored blocks are on the host.
    """
    import torch

    from mini_vllm_labs.grading.plays.device_tensors import OnDevice, on_device

    number = torch.arange(NUM_CACHES)
    shape = (NUM_CACHES, 2, 1, 3)
    store = GivenStore(
        {name: (100 * n + number).view(-1, 1, 1, 1).expand(shape).clone() for n, name in enumerate(stored, start=1)},
        forgets,
    )
    blocks = 10 * torch.arange(NUM_BLOCKS).view(-1, 1, 1, 1)
    caches = [on_device((blocks + cache).expand(NUM_BLOCKS, *shape[1:]).clone()) for cache in range(NUM_CACHES)]
    worker, seen = phase10.BlockStoreWorker(store, caches), dict[str, object]()
    for step, planned in enumerate(steps, start=1):
        to_load, to_save = (
            {PREFIX + name: [BlockTransfer(hash_of(h), b) for h, b in transfers] for name, transfers in one.items()}
            for one in planned
        )
        store.uses.clear()
        with OnDevice():
            metadata = KVConnectorMetadata(to_load, to_save)
            before = deepcopy(metadata)
            output = worker.start_step(metadata)
        if metadata != before:
            seen[f"{step}: the metadata"] = "changed"
        seen[f"{step}: reported sent"] = sorted(name.removeprefix(PREFIX) for name in output.finished_sending)
        seen[f"{step}: reported received"] = sorted(output.finished_recving)
        seen[f"{step}: reported lost"] = sorted(map(int, output.invalid_block_ids))
        seen[f"{step}: blocks"] = [[_content(cache[block]) for cache in caches] for block in range(NUM_BLOCKS)]
        seen[f"{step}: stored"] = {name_of(one): _parts(block) for one, block in sorted(store.blocks.items())}
        # Only the order of the blocks matters, because a block may be used any number of times.
        seen[f"{step}: used last"] = list(map(name_of, dict.fromkeys(reversed(store.uses))))
        for cache in caches:
            cache += 1
    return seen | {"stored in the end": {name_of(one): _parts(block) for one, block in sorted(store.blocks.items())}}


def many_moves(phase10: ModuleType, num_moves: int) -> Seen:
    """Load `num_moves` blocks in one step and save the same number of others; report how many are right."""
    import torch

    caches = [torch.arange(2 * num_moves).view(-1, 1, 1, 1) + 1_000_000 * cache for cache in range(2)]
    before, moves = [cache.clone() for cache in caches], range(num_moves)
    store = GivenStore({f"h{n}": torch.full((2, 1, 1, 1), -1 - n) for n in moves})
    to_load = [BlockTransfer(hash_of(f"h{n}"), n) for n in moves]
    to_save = [BlockTransfer(hash_of(f"s{n}"), num_moves + n) for n in reversed(moves)]
    output = phase10.BlockStoreWorker(store, caches).start_step(KVConnectorMetadata({"B": to_load}, {"A": to_save}))
    saved = [store.blocks.get(block_hash) for block_hash, _ in to_save]
    right = [torch.stack([cache[block] for cache in before]) for _, block in to_save]
    return {
        "blocks loaded": sum(all(int(cache[n]) == -1 - n for cache in caches) for n in moves),
        "blocks stored": sum(one is not None and one.equal(other) for one, other in zip(saved, right, strict=True)),
        "reported lost": len(output.invalid_block_ids),
        "used last": list(map(name_of, dict.fromkeys(reversed(store.uses))))[:3],
    }


def _content(part: "Tensor") -> object:
    """Return the single number in a block, or all numbers if they differ."""
    numbers = part.flatten().tolist()
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _parts(block: "Tensor") -> list[object]:
    if block.device.type != "cpu" or "int64" not in str(block.dtype):
        return [f"{block.dtype}, {'on the host' if block.device.type == 'cpu' else 'on the GPU'}"]
    return [list(block.shape), *map(_content, block)]


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    size = rng.choice((2, 4, 16))
    stored = [f"{name}{index}" for name in "AB" for index in range(9) if rng.random() < 0.85]
    asked = [(name, n := rng.randint(1, 9 * size), rng.randrange(n) // size * size) for name in rng.choices("AB", k=5)]
    match task:
        case 1:
            calls = list[tuple[str, Any, int]]()
            for _ in range(20):
                what = rng.choice(("put", "put", "put", "lookup", "get"))
                names = rng.sample("abcdefg", 3 if what == "lookup" else 1)
                sizes = {"b": 12, "d": 20, "f": 4, "g": 16}  # equal hashes mean the same block
                calls.append((what, names if what == "lookup" else names[0], sizes.get(names[0], 8)))
            return rng.choice((16, 36, 48)), calls
        case 2:
            return size, stored, asked
        case 3:
            return size, stored, [call for name in "AB" for call in _random_loads(rng, name, size)]
        case 4:
            events: list[tuple[str, str, Any]] = [
                (rng.choice((*ENDS, "preempt")), name, _random_end(rng, size)) for name in rng.sample("ABCD", 3)
            ]
            events.insert(rng.randrange(4), ("step", "", ()))
            return size, rng.random() < 0.7, stored, [*events, ("step", "", ())]
    others, own = [f"h{number}" for number in range(4)], [f"s{number}" for number in range(6)]
    steps = []
    for _ in range(2):
        rng.shuffle(own)
        apart = {"A": _moved(rng, own[:3]), "B": _moved(rng, own[3:])}
        shared = _moved(rng, own[:3])
        alike = {name: rng.sample(shared, rng.choice((1, 3, 3))) for name in "ABD"}
        saved, loaded = rng.choice((apart, alike)), _moved(rng, rng.sample(others + own, 4))
        steps.append(({} if rng.random() < 0.3 else {"C": loaded}, {} if rng.random() < 0.3 else saved))
    return rng.sample(others + own, 5), {rng.choice(own): rng.choice(others)}, steps


def _moved(rng: Random, names: Sequence[str]) -> list[tuple[str, int]]:
    return list(zip(names, rng.sample(range(NUM_BLOCKS), len(names)), strict=True))


def _random_loads(rng: Random, name: str, size: int) -> list[tuple[str, str, Any]]:
    num_tokens = rng.randint(1, 9 * size)
    asked = [("ask", name, (num_tokens, rng.randrange(num_tokens) // size * size)) for _ in range(rng.randint(1, 2))]
    table = rng.sample(range(1, 99), num_tokens // size + 1)
    return [*asked, ("allocate", name, table), *[("step", "", ())] * rng.randint(1, 2)]


def _random_end(rng: Random, size: int) -> tuple[int, int, list[int]]:
    num_tokens = rng.randint(1, 9 * size)
    table = rng.sample(range(1, 99), num_tokens // size + 1)
    return num_tokens, rng.choice((num_tokens, num_tokens - 1, rng.randrange(num_tokens))), table
