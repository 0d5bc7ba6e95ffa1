"""Runs phase 11's cases for the graded tests and the judge; each function returns its observations."""

from collections.abc import Mapping, Sequence
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mini_vllm.core.request import MultiModalFeatureSpec, Request

if TYPE_CHECKING:
    from torch import Tensor

Seen = dict[str, object]  # plain JSON
Image = tuple[str, int, int]  # (content, offset, length)
EMPTY = "''"
ADAPTERS = ("x", "y", "z", "xy", EMPTY, "")  # the last entry means that there is no adapter


def request_of(name: str, images: Sequence[Image] = (), **settings: Any) -> Request:
    features = tuple(MultiModalFeatureSpec(copied(content), *place) for content, *place in images)
    return Request(copied(name), [7] * 60, mm_features=features, **settings)


def copied(text: str) -> str:
    """Return an equal string that is a new object, if it is longer than one character."""
    return "".join(list(text))


def key_of(text: str) -> str | None:
    """Return a salt or adapter name: None for an empty string, and an empty string for `EMPTY`."""
    return "" if text == EMPTY else copied(text) or None


def gate(phase11: ModuleType, max_loras: int, calls: Sequence[tuple[str, str, str]]) -> Seen:
    """Plan and free requests with adapters; report each answer, and the adapters that the gate then admits.

    Like the engine, "plan" checks whether the gate is open, and only then allocates slots.
    """
    found, seen, requests = phase11.AdapterGate(max_loras), dict[str, object](), dict[str, Request]()
    for number, (what, name, adapter) in enumerate(calls, start=1):
        request = requests.setdefault(name, request_of(name, adapter_id=key_of(adapter)))
        answer: object = None
        match what:
            case "step":
                found.start_step()
            case "plan":
                answer = "planned" if found.is_open(request) else "left out"
                if answer == "planned":
                    found.slots_allocated(request)
            case "free":
                found.freed(request)
            case _:
                answer = int(found.limit(request, 8, 5))
        probes = [one for one in ADAPTERS if found.is_open(request_of("probe", adapter_id=key_of(one)))]
        seen[f"{number}. {what} {name} {adapter}".strip()] = [
            answer,
            f"open to {', '.join(one or '-' for one in probes)}",
        ]
    return seen


def encodings(phase11: ModuleType, cache_size: int, calls: Sequence[tuple[str, str, str, int]]) -> Seen:
    """Encode images for requests and release them; report each answer and the whole state.

    Like the engine, "encode" first tries to reference a cached encoding, and otherwise makes room and allocates.
    """
    cache, seen = phase11.EncoderCacheManager(cache_size), dict[str, object]()
    for number, (what, name, content, length) in enumerate(calls, start=1):
        request, image = request_of(name), MultiModalFeatureSpec(copied(content), 0, length)
        match what:
            case "refer":
                answer: object = bool(cache.refer(request, image))
            case "room":
                answer = bool(cache.make_room(length))
            case "release":
                answer = cache.release(request, image)
            case _:
                answer = "found" if cache.refer(request, image) else "no room"
                if answer == "no room" and cache.make_room(length):
                    answer = cache.allocate(request, image)
        users = {
            one: sorted(user if isinstance(user, str) else f"a {type(user).__name__}" for user in users)
            for one, users in sorted(cache.cached.items())
        }
        freeable = dict(cache.freeable) if isinstance(cache.freeable, Mapping) else cache.freeable
        state = f"free {int(cache.num_free_slots)}, freeable {freeable}, users {users}, freed {cache.freed}"
        seen[f"{number}. {what} {name} {content} {length}"] = [answer, state]
    return seen


class RoomyCache:
    """An encoder cache with some known contents and a fixed amount of room, which records its calls."""

    def __init__(self, known: Sequence[str], room: int) -> None:
        self.known, self.room = known, room
        self.referred: list[str] = []
        self.made_room_for = 0
        self.changed: list[str] = []

    def refer(self, request: Request, image: MultiModalFeatureSpec) -> bool:
        if image.identifier in self.known:
            self.referred.append(image.identifier)
        return image.identifier in self.known

    def make_room(self, num_embeds: int) -> bool:
        if num_embeds <= self.room:
            self.made_room_for = max(self.made_room_for, num_embeds)
        return num_embeds <= self.room

    def allocate(self, request: Request, image: MultiModalFeatureSpec) -> None:
        self.changed.append(f"allocated {image.identifier}")

    def release(self, request: Request, image: MultiModalFeatureSpec) -> None:
        self.changed.append(f"released {image.identifier}")


def chunk(
    phase11: ModuleType,
    images: Sequence[Image],
    computed: int,
    num_new: int,
    budget: int,
    room: int,
    known: Sequence[str],
) -> Seen:
    """Schedule one chunk; report the answer and the changes to the encoder cache."""
    cache = RoomyCache(known, room)
    to_encode, num_tokens = phase11.schedule_encoder_inputs(request_of("r", images), computed, num_new, budget, cache)
    return {
        "images to encode": [int(one) if hasattr(one, "__index__") else str(one) for one in to_encode],
        "tokens": int(num_tokens),
        "known contents that got a user": sorted({*cache.referred}),
        "made room for": cache.made_room_for,
        "done to the cache": cache.changed,
    }


def keys(phase11: ModuleType, salt: str, adapter: str, images: Sequence[Image], start: int, end: int) -> Seen:
    """Report a block's extra keys."""
    request = request_of("r", images, cache_salt=key_of(salt), adapter_id=key_of(adapter))
    found = phase11.generate_block_hash_extra_keys(request, start, end)
    return {"extra keys": [*found], "type": "tuple" if isinstance(found, tuple) else type(found).__name__}


def products(
    phase11: ModuleType, num_inputs: int, num_outputs: int, rank: int, num_adapters: int, rows: Sequence[int], seed: int
) -> Seen:
    """Add products of integers, which are exact in any order; report each row, and whether more rows need more
    operators.

    The tensors are float64 and on a fake device, to detect tensors created without `dtype=` or `device=`.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from mini_vllm_labs.grading.plays.device_tensors import OnDevice, on_device

    class CountingOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
        number = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.number += 1
            return func(*args, **(kwargs or {}))

    rng = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> "Tensor":
        return torch.randint(-3, 4, shape, generator=rng).double()

    lora_a, lora_b = numbers(num_adapters, rank, num_inputs), numbers(num_adapters, num_outputs, rank)
    counts, seen = [], dict[str, object]()
    for times in (9, 1):
        indices = torch.tensor([*rows] * times)
        inputs, output = numbers(len(indices), num_inputs), numbers(len(indices), num_outputs)
        inputs *= 2**25 + 1  # integers that float32 cannot represent exactly
        beside = {"inputs": inputs, "lora_a": lora_a, "lora_b": lora_b, "indices": indices}
        before, copies = output.clone(), {name: one.clone() for name, one in beside.items()}
        arguments = [on_device(one) for one in (output, inputs, lora_a, lora_b, indices)]
        with CountingOperations() as counting, OnDevice():  # type: ignore[no-untyped-call]
            phase11.bgmv(*arguments)
        counts.append(counting.number)
        added = (output - before).tolist()
        seen |= {
            "changed beside output": [name for name, one in beside.items() if not one.equal(copies[name])],
            **{f"row {t}, adapter {rows[t]}: added": added[t] for t in range(len(rows))},
        }
    return seen | {"more operators for more rows": counts[0] > counts[1]}


def random_images(rng: Random, contents: Sequence[str] = ("a", "cat", "Cat", "cat2")) -> list[Image]:
    """Draw images in order, sometimes with no gap between two of them; sometimes draw many, all different."""
    images, at = list[Image](), 0
    count = rng.choice((*range(5), *range(5), 60))
    for number in range(count):
        offset, length = at + rng.choice((0, 0, 1, 4)), rng.choice((1, 3, 6))
        images.append((f"image{number}" if count == 60 else rng.choice(contents), offset, length))
        at = offset + length
    return images


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task."""
    calls = list[tuple[Any, ...]]()
    match task:
        case 1:
            names, num_seats = ("A", "B", "C", "C-1", "CC", "D"), rng.choice((1, 2, 3, 3, 300))
            adapter_of = {name: rng.choice(ADAPTERS) for name in names}
            # as many adapters as the limit allows, with one request each, followed by one more adapter
            if num_seats == 300:
                calls = [("plan", f"r{number}", f"a{number}") for number in range(300)]
            for _ in range(14):
                what, name = rng.choice(("step", *("plan", "free", "limit", "plan") * 3)), rng.choice(names)
                calls.append(("step", "", "") if what == "step" else (what, name, adapter_of[name]))
            return num_seats, calls
        case 2:
            scale, lengths = rng.choice((1, 1, 1, 3000)), {"a": 2, "cat": 3, "cat2": 4, "d": 5}
            if rng.random() < 0.04:  # an image shared by many users
                calls = [("encode", f"user{number}", "a", scale * 2) for number in range(80)]
            for _ in range(24):
                what = rng.choice(("encode", "encode", "release", "release", "refer", "room"))
                content = rng.choice([*lengths])
                calls.append((what, rng.choice(("A", "A-1")), content, scale * lengths[content]))
            return scale * rng.choice((6, 9, 12)), calls
        case 3:
            limits, known = (rng.choice((3, 6, 9, 20)), rng.choice((3, 9, 20, 20))), rng.choice(("", "", "a", "cat"))
            images, scale = random_images(rng), rng.choice((1, 1, 1, 3000))
            if len(images) > 5:  # there is room for all of them
                limits, known = (400, 400), ""
            scaled = [(content, scale * offset, scale * length) for content, offset, length in images]
            computed, end = rng.randrange(12), rng.randint(1, 24) if len(images) < 6 else 400
            return scaled, scale * computed, scale * end, *(scale * limit for limit in limits), [known] if known else []
        case 4:
            start, keys = rng.choice((0, 4, 8, 12)), ("", EMPTY, "s", " S x ")
            end = start + rng.choice((4, 4, 4, 400))
            return rng.choice(keys), rng.choice(keys), random_images(rng), start, end
    num_adapters, rank = rng.choice((rng.randint(1, 3), rng.randint(1, 3), 70)), rng.choice((1, 2, 3, 3, 70))
    rows = [rng.randrange(-1, num_adapters) for _ in range(rng.choice((*range(1, 7), 300)))]
    return rng.randint(1, 5), rng.randint(1, 5), rank, num_adapters, rows, rng.randrange(1000)
