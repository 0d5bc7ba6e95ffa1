"""A step token by token: the handout's numbers, what each query reads, and wrong functions whose pictures show the
error."""

import random
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.paged_batch import example_batch, paged_batch
from mini_vllm_labs.pictures.paged_batch.batch_film import MAX_STEPS, share
from mini_vllm_labs.pictures.paged_batch.flat_step import by_functions, by_rules, faults
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.text import ranges
from solutions import phase6_gpu_runner as reference
from tests.views.svg_reader import SVG, count, described, layers, numbers, texts, tree

ROOT = Path(__file__).parents[2]
NAMES = ("flatten_tokens", "compute_slot_mapping", "pad_block_tables", "select_logits_rows")


def functions(**others: Any) -> Any:
    """Return the reference's functions, some of them replaced."""
    return SimpleNamespace(**{name: getattr(reference, name) for name in NAMES} | others)


def random_batch(seed: int, num_requests: int, block_size: int, num_blocks: int = 200) -> list[ScheduledRequest]:
    rng = random.Random(seed)
    blocks = list(range(1, num_blocks + 1))
    rng.shuffle(blocks)
    batch = []
    for number in range(num_requests):
        computed, scheduled = rng.randrange(12 * block_size), rng.choice([1, 1, 3, 2 * block_size])
        table = [blocks.pop() for _ in range(cdiv(computed + scheduled, block_size) + number % 2)]
        known = computed + scheduled + 2
        batch.append(share(f"r{number}", 1000 * number, known, computed, scheduled, table, samples=number % 3 > 0))
    return batch


def lit(picture: Picture) -> list[int]:
    read = [part.get("data-read") for part in tree(picture).iter() if part.get("data-read")]
    return sorted(int(slot) for slots in read for slot in str(slots).split())


def columns(picture: Picture) -> dict[int, list[str]]:
    page = layers(picture)["row-page"]
    return {int(str(part.get("data-row"))): texts(part) for part in page.iter(f"{SVG}g") if part.get("data-row")}


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_in_drawing_and_text(seed: int) -> None:
    block_size = (1, 4, 16)[seed % 3]
    batch = random_batch(seed, seed * 2 + 1, block_size)
    assert by_rules(batch, block_size) == by_functions(batch, block_size, reference)
    film = paged_batch(batch, block_size, reference)
    row = 0
    for request in batch:
        for position in range(request.num_computed_tokens, request.num_computed_tokens + request.num_scheduled_tokens):
            picture, facts = film[row], described(film[row])
            slots = [
                request.block_ids[place // block_size] * block_size + place % block_size
                for place in range(position + 1)
            ]
            assert lit(picture) == sorted(slots)
            assert facts["read"] == ranges(slots)
            assert facts["read, but not its token"] == "none"
            assert facts["written"].startswith(f"slot {slots[-1]} ")
            shown, page = columns(picture)[row], numbers(facts["rows shown"])
            assert shown[1:4] == [
                facts[name].split()[row - page[0]] for name in ("input_ids", "positions", "slot_mapping")
            ]
            assert shown[3] == str(slots[-1])
            assert (str(row) in facts["logits rows"].split()) == ("Logits needed." in picture.sentence)
            row += 1
    assert row == len(film)


def by_row_index(batch: Any, block_size: int) -> list[int]:
    """A slot mapping that counts from the beginning of the chunk instead of the request."""
    return [
        row.block_ids[place // block_size] * block_size + place % block_size
        for row in batch
        for place in range(row.num_scheduled_tokens)
    ]


def all_wrong(name: str) -> Any:
    wrong = {
        "flatten_tokens": lambda batch: ([1, 2], [0], []),
        "compute_slot_mapping": lambda batch, block_size: [-5, 10**6],
        "pad_block_tables": lambda batch, block_size: [[0, 99, 5, 5]],
        "select_logits_rows": lambda batch: [0, 1, 700],
    }
    return functions(**{name: wrong[name]})


@pytest.mark.parametrize("name", NAMES)
def test_results_of_any_length_are_drawn_and_reported(name: str) -> None:
    given = all_wrong(name)
    film = paged_batch(functions=given)
    found = faults(by_functions(example_batch(), 4, given), by_rules(example_batch(), 4))
    assert found
    assert all(f"wrong: {fault.text}" in film[0].text_alternative for fault in found)
    assert any(count(picture, "mv-wrong") for picture in film.pictures)


@cache  # its users only look at the films
def extremes() -> list[Film]:
    one = [share("A", 0, 1, 0, 1, [1])]
    long = [share("A", 0, 3000, 40, 2900, list(range(1, 200)))]
    return [paged_batch(one), paged_batch(random_batch(1, 12, 16), 16), paged_batch(long, 16)]


def test_a_long_batch_has_few_pictures_and_its_last_row_among_them() -> None:
    for film in extremes():
        assert len(film) <= MAX_STEPS
        last = film[len(film) - 1]
        total = int(last.text_alternative.split("of 0-")[1].split(":")[0])
        assert last.title.startswith(f"Slots and paged attention, row {total}:")
        jumps = {int(str(part.get("data-go-to"))) for part in tree(last).iter() if part.get("data-go-to")}
        assert jumps == set(range(len(film)))


SHARED_PREFIX = [share("A", 0, 8, 0, 8, [1, 2]), share("B", 0, 8, 4, 4, [1, 3])]


def test_shared_prefixes_are_not_reported_as_mistakes() -> None:
    """A and B have the same 8 tokens and are admitted together: B reads a block that A writes."""
    found = {described(picture)["read, but not its token"] for picture in paged_batch(SHARED_PREFIX).pictures}
    assert found == {"none"}


def test_what_cannot_be_drawn_is_refused() -> None:
    def alone(scheduled: int = 4) -> list[ScheduledRequest]:
        return [share("A", 0, 4, 0, scheduled, [1])]

    for arguments, problem in (
        (([],), "batch is empty"),
        ((alone(), 0), "block_size is 0"),
        ((alone(0),), "at least 1"),
        ((alone(5),), "up to token 5, but has only 4"),
        ((alone(), 3), "needs 4 slots"),
        ((alone() * 17,), "17 requests"),
        ((alone(), 4, functions(compute_slot_mapping=lambda *_: None)), "returned None, but it must return a list"),
        ((alone(), 4, functions(flatten_tokens=lambda *_: [1])), "three lists"),
    ):
        with pytest.raises(ValueError, match=problem):
            paged_batch(*arguments)
