"""A step token by token: the handout's numbers, what each query reads, and wrong functions drawn as wrong."""

import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from course.palette import color
from course.views.film import Film
from course.views.paged_batch import example_batch, paged_batch
from course.views.paged_batch.batch_film import MAX_STEPS
from course.views.paged_batch.example import share
from course.views.paged_batch.flat_step import by_functions, by_rules, faults
from course.views.picture import Picture
from course.views.text import ranges
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from solutions import phase6_gpu_runner as reference
from tests.views.drawing import SVG, described, is_sound, layers, marked, texts, tooltips, tree
from tests.views.test_time_machine import numbers

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
        batch.append(
            share(
                f"r{number}",
                1000 * number,
                num_tokens=computed + scheduled + 2,
                num_computed=computed,
                num_scheduled=scheduled,
                block_ids=table,
                samples=number % 3 > 0,
            )
        )
    return batch


def lit(picture: Picture) -> list[int]:
    """Return the slots that are drawn as read."""
    read = [part.get("data-read") for part in tree(picture).iter() if part.get("data-read")]
    return sorted(int(slot) for slots in read for slot in str(slots).split())


def columns(picture: Picture) -> dict[int, list[str]]:
    """Return the numbers in each column of the row."""
    page = layers(picture)["row-page"]
    return {int(str(part.get("data-row"))): texts(part) for part in page.iter(f"{SVG}g") if part.get("data-row")}


def count(picture: Picture, name: str) -> int:
    return sum(name in (part.get("class") or "").split() for part in tree(picture).iter())


@pytest.mark.parametrize("given", [None, reference], ids=["rules", "reference"])
def test_the_step_of_the_handout(given: Any) -> None:
    film = paged_batch(functions=given)
    assert len(film) == 8
    drawn = columns(film[0])
    assert [drawn[row][1] for row in range(8)] == ["104", "105", "106", "107", "206", "300", "301", "302"]
    assert [drawn[row][2] for row in range(8)] == ["4", "5", "6", "7", "6", "0", "1", "2"]
    assert [drawn[row][3] for row in range(8)] == ["8", "9", "10", "11", "26", "28", "29", "30"]
    assert [row for row in range(8) if len(drawn[row]) == 5] == [4, 7], "where logits are needed"
    facts = described(film[4])
    assert facts["query_start_loc"] == "0 4 5 8"
    assert facts["A"] == "block_ids 5 2 8, table 5 2, seq_len 8"
    assert facts["B"] == "block_ids 3 6, table 3 6, seq_len 7"
    assert facts["C"] == "block_ids 7, table 7 0, seq_len 3"
    assert film[4].sentence == (
        "Row 4: the token at position 6 of B. K and V go to slot 26 (block 6, offset 2). "
        "Reads 7 tokens of B, blocks 3 6. Logits needed."
    )
    assert "wrong" not in film[4].text_alternative
    assert count(film[4], "mv-wrong") == count(film[4], "mv-stranger") == 0


def test_each_query_reads_its_own_request_up_to_itself() -> None:
    film = paged_batch()
    assert [len(lit(picture)) for picture in film.pictures] == [5, 6, 7, 8, 7, 1, 2, 3]
    assert lit(film[1]) == [8, 9, 20, 21, 22, 23]
    assert lit(film[4]) == [12, 13, 14, 15, 24, 25, 26]
    assert tooltips(layers(film[4])["cache-6"]) == [
        "block 6, slots 24 to 27: tokens of B in 3 of 4 slots, 3 of them read"
    ]
    assert tooltips(layers(film[4])["cache-0"]) == ["block 0, slots 0 to 3: the null block"]
    assert tooltips(layers(film[3])["mask-line"]) == ["row 3 sees 8 of 18 keys"]
    assert [part.get("data-block") for part in marked(film[0], "about", "block:8")] == ["8"]


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
    """A slot mapping that counts from the beginning of the chunk, not of the request."""
    return [
        row.block_ids[place // block_size] * block_size + place % block_size
        for row in batch
        for place in range(row.num_scheduled_tokens)
    ]


def test_a_wrong_slot_mapping_is_visible() -> None:
    film = paged_batch(functions=functions(compute_slot_mapping=by_row_index))
    picture = film[2]
    assert columns(picture)[2][3] == "22"
    assert count(picture, "mv-wrong") == 5
    assert described(picture)["read, but not its token"] == "20-23 8-10", "A wrote over its own first tokens"
    assert count(layers_picture(picture, "cache-2"), "mv-stranger") == 3
    assert picture.sentence.startswith("slot_mapping[2] is 22, the rules give 10. 4 other wrong numbers.")
    assert "Slots with another token than expected: 20 21 22 23 8 9 and 1 more." in picture.sentence
    assert "wrong: slot_mapping[4] is 12, the rules give 26." in picture.text_alternative


def layers_picture(picture: Picture, name: str) -> Picture:
    """Return a picture of one layer alone."""
    (layer,) = [layer for layer in picture.layers if layer.name == name]
    return Picture("one layer", 10, (layer,), "", "")


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
    assert all(is_sound(picture) for picture in film.pictures)
    found = faults(by_functions(example_batch(), 4, given), by_rules(example_batch(), 4))
    assert found
    assert all(f"wrong: {fault.text}" in film[0].text_alternative for fault in found)
    assert any(count(picture, "mv-wrong") for picture in film.pictures)


def test_a_missing_table_is_reported() -> None:
    picture = paged_batch(functions=all_wrong("pad_block_tables"))[4]
    assert "Reads 7 tokens of B, blocks none. The table has no block for 7 of them." in picture.sentence


def test_shared_prefixes_are_not_reported_as_mistakes() -> None:
    """A and B have the same 8 tokens and are admitted in one step: B reads a block that A writes in that step."""
    made = [
        share("A", 0, num_tokens=8, num_computed=0, num_scheduled=8, block_ids=[1, 2], samples=True),
        share("B", 0, num_tokens=8, num_computed=4, num_scheduled=4, block_ids=[1, 3], samples=True),
    ]
    film = paged_batch(made)
    assert {described(picture)["read, but not its token"] for picture in film.pictures} == {"none"}
    assert "tokens of A, B in 4 of 4 slots" in tooltips(layers(film[11])["cache-1"])[0]


def extremes() -> list[Film]:
    one = [share("A", 0, num_tokens=1, num_computed=0, num_scheduled=1, block_ids=[1], samples=True)]
    long = [
        share("A", 0, num_tokens=3000, num_computed=40, num_scheduled=2900, block_ids=list(range(1, 200)), samples=True)
    ]
    return [paged_batch(one), paged_batch(random_batch(1, 12, 16), 16, num_blocks=201), paged_batch(long, 16)]


def test_extremes_are_sound_and_not_too_many() -> None:
    for film in extremes():
        assert len(film) <= MAX_STEPS
        assert all(is_sound(picture) for picture in film.pictures[:: max(1, len(film) // 5)])
        last = film[len(film) - 1]
        total = int(last.text_alternative.split("of 0-")[1].split(":")[0])
        assert last.title.startswith(f"Slots and paged attention, row {total}:"), "the last row is never left out"
        jumps = {int(str(part.get("data-go-to"))) for part in tree(last).iter() if part.get("data-go-to")}
        assert jumps == set(range(len(film)))


def test_what_cannot_be_drawn_is_refused() -> None:
    def alone(**changed: Any) -> list[ScheduledRequest]:
        usual: dict[str, Any] = {"num_tokens": 4, "num_computed": 0, "num_scheduled": 4, "block_ids": [1]}
        return [share("A", 0, samples=True, **usual | changed)]

    for arguments, problem in (
        (([],), "batch is empty"),
        ((alone(), 0), "block_size is 0"),
        ((alone(num_scheduled=0),), "at least 1"),
        ((alone(num_scheduled=5),), "up to token 5, but has 4"),
        ((alone(block_ids=[1]), 3), "needs 4 slots"),
        ((alone(), 4, None, 1), "num_blocks is 1"),
        ((alone() * 17,), "17 requests"),
        ((alone(), 4, functions(compute_slot_mapping=lambda *_: None)), "returned None, but must return a list"),
        ((alone(), 4, functions(flatten_tokens=lambda *_: [1])), "three lists"),
    ):
        with pytest.raises(ValueError, match=problem):
            paged_batch(*arguments)


def test_the_picture_needs_no_torch() -> None:
    program = "import sys, course.views.paged_batch as p; p.paged_batch(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_a_shared_block_has_the_colours_of_all_its_requests_in_table_and_cache() -> None:
    """Notebook 06: A reads a block that B shares; its slots are not B's alone."""
    head = list(range(10))
    batch = [
        ScheduledRequest(Request("A", [*head, 7]), 10, 1, [1, 2, 3], needs_token=True),
        ScheduledRequest(Request("B", [*head, 9]), 8, 3, [1, 2, 4], needs_token=True),
    ]
    picture = paged_batch(batch)[0]
    for name in ("cache-1", "cache-2", "tables-lines"):
        fills = [part.get("fill") for part in layers(picture)[name].iter() if part.get("fill")]
        assert {color(0), color(1)} <= set(fills), name
        assert any("mv-shared" in str(part.get("class")) for part in layers(picture)[name].iter()), name
    own = {part.get("fill") for part in layers(picture)["cache-3"].iter()} & {color(0), color(1)}
    assert own == {color(0)}
    assert paged_batch(batch).word == "row"
