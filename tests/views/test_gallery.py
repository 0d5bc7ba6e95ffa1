"""Every view as it was reviewed, including extreme cases, with its texts and drawings stored in `snapshots/`."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.request import MultiModalFeatureSpec, Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.automaton import Dfa
from mini_vllm_labs.pictures.automaton import automaton
from mini_vllm_labs.pictures.bars import bars
from mini_vllm_labs.pictures.batching import batching
from mini_vllm_labs.pictures.block_life import block_life
from mini_vllm_labs.pictures.calculator import calculator_picture
from mini_vllm_labs.pictures.chunking_dial import Deployment, Setting, chunking_picture, try_setting
from mini_vllm_labs.pictures.drafts import draft_film
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.gates import gates
from mini_vllm_labs.pictures.hash_chain import hash_chain, hits_of
from mini_vllm_labs.pictures.image_chunks import ImageStep, image_chunks
from mini_vllm_labs.pictures.lanes import lanes
from mini_vllm_labs.pictures.paged_batch import paged_batch
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyComparison, PolicyResult, compare_policies, policy_picture
from mini_vllm_labs.pictures.policy_comparison.comparison import COMPARED
from mini_vllm_labs.pictures.prefix_tree import prefix_tree
from mini_vllm_labs.pictures.race import race
from mini_vllm_labs.pictures.stutter import stutter
from mini_vllm_labs.pictures.time_machine import compare, latency_bars, time_machine, wait_strip
from mini_vllm_labs.pictures.transfers import TransferStep, transfers
from mini_vllm_labs.pictures.windows import windows
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.served import Served, Slo
from mini_vllm_labs.upkeep.pictures.views import compute_then_memory
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.snapshots import Snapshots
from tests.views import runs
from tests.views.runs import THREE, ahead, in_a_huge_pool, in_blocks_of_4, large, observed, scenario, small
from tests.views.svg_reader import is_sound, outline
from tests.views.test_hash_chain import PROMPTS, SALTS, A, forgets_the_parent, many
from tests.views.test_lanes import RUNS, in_vain, wasted
from tests.views.test_paged_batch import SHARED_PREFIX, all_wrong, by_row_index, extremes, functions, random_batch

FILMS: dict[str, Callable[[], Film]] = {
    "time machine": lambda: time_machine(small()),
    "of a shipped trace": lambda: time_machine(observed()),
    "of phase 1 alone": lambda: time_machine(observed("phase_1_alone")),
    "of many requests": lambda: time_machine(small(3, 40)),
    "with reasons": lambda: time_machine(runs.explained()),
    "with reasons of many requests": lambda: time_machine(runs.explained(3, 40)),
    "of a large run": lambda: time_machine(large()),
    "in a huge pool": lambda: time_machine(in_a_huge_pool(small())),
    "compare": lambda: compare(small(), small(caching=False), ("caching on", "caching off")),
    "block life": lambda: block_life(small()),
    "block life of a shipped trace": lambda: block_life(observed()),
    "block life of a large run": lambda: block_life(large()),
    "one block": lambda: block_life(small(5, 1), [1]),
    "race": lambda: race({"FCFS": large(), "another": small(3, 40)}),
    "stutter": lambda: stutter({"one": large(), "two": small(3, 40)}, "r0", float),
    "gates": lambda: gates(large()),
    "gates of many steps": compute_then_memory,
    "prefix tree": lambda: prefix_tree(small()),
    "prefix tree of a large run": lambda: prefix_tree(large()),
    "drafts": lambda: draft_film(ahead()),
    "drafts ahead": lambda: draft_film(ahead(asynchronous=True)),
    "paged batch": paged_batch,
    "wrong slots": lambda: paged_batch(functions=functions(compute_slot_mapping=by_row_index)),
    "five requests": lambda: paged_batch(random_batch(3, 5, 4), 4),
    "one token": lambda: extremes()[0],
    "twelve requests": lambda: extremes()[1],
    "a long prompt": lambda: extremes()[2],
}
CHAINS: dict[str, Callable[[], Picture]] = {
    "chains with hits": lambda: hash_chain(
        PROMPTS, 4, hash_block, salts=SALTS, hits=hits_of(PROMPTS, HashPrefixCache(4), 4, SALTS)
    ),
    "twelve chains": lambda: hash_chain(many(), 16, hash_block, hits=hits_of(many(), HashPrefixCache(16), 16)),
    "long chains": lambda: hash_chain(many(12, 1000), 4, hash_block),
    "wrong hashes": lambda: hash_chain(PROMPTS, 4, forgets_the_parent),
    "automaton": lambda: automaton(
        "a*(bc|d)?", Dfa([{97: 0, 98: 2, 100: 1}, {}, {99: 1}], frozenset({0, 1})), 0, "ab", 9
    ),
    "image chunks": lambda: image_chunks(
        10,
        [MultiModalFeatureSpec("cat", 1, 4), MultiModalFeatureSpec("dog", 7, 3)],
        [ImageStep(0, 7, ["cat"], [], ["cat"]), ImageStep(7, 3, ["dog"], ["cat"], ["dog"])],
        5,
    ),
    "windows": lambda: windows(
        "a text", {"full": [3, 1, 2], "window of 4": [0, 0, 5]}, {"all": [1, 2, 3], "with a window": [1, 2, 2]}
    ),
    "transfers": lambda: transfers(
        [
            TransferStep({"A": ("running", [1]), "B": ("loading", [2, 3]), "C": ("running", [4])}),
            TransferStep({"A": ("held until sent", [1]), "B": ("loaded", [2, 3]), "C": ("running", [4])}),
            TransferStep({"B": ("running", [2, 3])}),
        ],
        6,
    ),
    "chains without hashes": lambda: hash_chain({"the first prompt": list(range(80)), "the second": [1]}, 4),
}


def dials() -> Iterator[Picture]:
    """Every knob at both ends, each setting compared with the previous one."""
    few = Deployment(num_requests=200)
    ends = product(("mixed", "documents", "burst", "chat"), (50, 120), (256, 8192), (0, 128, 4096), (8, 256))
    trials = [try_setting(Setting(*values), few) for values in [*ends][::5]]
    yield chunking_picture(trials[0])
    yield from (chunking_picture(now, before) for before, now in pairwise(trials))
    yield chunking_picture(try_setting(Setting("documents", 120, 8192), Deployment("L4", num_requests=500)), trials[0])


def crowds() -> Iterator[Picture]:
    """Every workload, both under contention and on its own, with objectives that every request meets and objectives
    that none does."""
    lineup = parse_lineup("solution:1-5")
    for workload, (load, blocks, sigma) in product(
        ("chat", "documents", "shared-prefix", "mixed", "burst"), ((50, 4000, 0.0), (200, 800, 2.0))
    ):
        comparison = PolicyComparison(workload, load, blocks, sigma, num_requests=40)
        results = compare_policies(comparison, lineup)
        yield from (policy_picture(comparison, results, slo) for slo in (Slo(0.1, 0.1), Slo(10, 0.005)))


def batches() -> Iterator[Picture]:
    """Both knobs at both ends, and many requests."""
    for width, seats, longest in product((460, 1000), (1, 8), (1, 30)):
        yield batching([longest, 3, 40, 1], seats, width, horizon=41)
    yield batching([1, 200] * 20, 6)


KNOBS: dict[str, Callable[[], Iterator[Picture]]] = {
    "batching": batches,
    "chunking dial": dials,
    "policy comparison": crowds,
}


def pictures_of(name: str) -> list[Picture]:
    """Return the pictures under a name: a few steps of a film, or all of a panel."""
    if name in CHAINS:
        drawn = CHAINS[name]()
        return [drawn, *filter(None, [drawn.narrow])]
    if name in KNOBS:
        return list(KNOBS[name]())
    film = FILMS[name]()
    return list(film.pictures[:: max(1, len(film) // 6)])


SHARING = [
    ScheduledRequest(Request("A", [*range(10), 7]), 10, 1, [1, 2, 3], needs_token=True),
    ScheduledRequest(Request("B", [*range(10), 9]), 8, 3, [1, 2, 4], needs_token=True),
]


def compared(*settings: dict[str, Any], requests: list[TimedRequest], num_blocks: int, phases: list[int]) -> Film:
    one, two = (in_blocks_of_4(requests, num_blocks, n, **each) for n, each in zip(phases, settings, strict=True))
    return compare(one, two, ("one", "two"))


def first_of(film: Film) -> Picture:
    return film[film.first]


def ended_early() -> Film:
    return compare(small(), Recording(small().info, list(small().steps[:-2])))


def policies(*waits: list[float]) -> Picture:
    """Nine requests with outputs of 10, 20, ... tokens, every third one urgent, and their waiting times under each
    policy."""
    requests = [TimedRequest(0.0, str(n), [1] * 9, 10 * (n + 1), int(n % 3 != 0)) for n in range(9)]
    results = [
        PolicyResult(
            policy, Served(requests, each, [wait + 1 for wait in each], gaps=[(0.01, 5)]), parse_lineup("solution")
        )
        for policy, each in zip(COMPARED, waits, strict=True)
    ]
    return policy_picture(PolicyComparison(), results, Slo())


def dial(now: Setting, before: Setting | None = None, gpu: str = "H100") -> Picture:
    deployment = Deployment(gpu, num_requests=300)
    return chunking_picture(try_setting(now, deployment), try_setting(before, deployment) if before else None)


def chain(prompts: dict[str, list[int]], **options: Any) -> Picture:
    return hash_chain(prompts, 4, hash_block, **options)


SNAPSHOTS: dict[str, Callable[[], Picture]] = {
    "time_machine": lambda: time_machine(observed())[6],
    "time_machine_many_requests": lambda: time_machine(small(3, 40))[9],
    "time_machine_reasons": lambda: time_machine(runs.explained())[8],
    "time_machine_hits": lambda: time_machine(in_blocks_of_4(runs.AGAIN, 12, 4))[1],
    "time_machine_stalled": lambda: time_machine(in_blocks_of_4(THREE, 4, 2))[5],
    "compare_slots_with_blocks": lambda: compared({}, {}, requests=THREE, num_blocks=6, phases=[1, 2])[1],
    "compare_whole_prompts_with_chunks": lambda: compared(
        {}, {"long_prefill_token_threshold": 8}, requests=runs.A_PROMPT_AMONG_DECODES, num_blocks=20, phases=[4, 5]
    )[11],
    "compare_priorities": lambda: compared(
        {}, {"policy": "priority"}, requests=runs.RANKED, num_blocks=4, phases=[3, 3]
    )[2],
    "compare_at_the_difference": lambda: compare(small(), small(caching=False), ("caching on", "caching off"))[0],
    "compare_after_the_difference": lambda: compare(small(), small(caching=False), ("caching on", "caching off"))[2],
    "compare_before_the_end_of_one": lambda: ended_early()[len(small().steps) - 3],
    "compare_after_the_end_of_one": lambda: ended_early()[len(small().steps) - 1],
    "waits": lambda: wait_strip(runs.queued("priority"), "PRIORITY"),
    "waits_after_preemption": lambda: wait_strip(
        in_blocks_of_4([TimedRequest(0, name, [ord(name)] * 4, max_tokens=9) for name in "AB"], 4, 3),
        "tight",
        width=420,
    ),
    "latency_after_preemption": lambda: latency_bars(
        in_blocks_of_4([TimedRequest(0, name, [ord(name)] * 4, max_tokens=13) for name in "ABCD"], 6, 3),
        "6 blocks",
        420,
    ),
    "block_life": lambda: block_life(observed())[6],
    "block_life_hit": lambda: block_life(observed(), [17, 4])[8],
    "block_life_tail_first": lambda: block_life(scenario("lru_eviction_order"))[1],
    "block_life_evicted": lambda: block_life(scenario("lru_eviction_order"))[5],
    "block_life_within_a_step": lambda: block_life(in_blocks_of_4(runs.IN_A_QUEUE, 6, 2))[1],
    "block_life_large_pool": lambda: block_life(large())[0],
    "paged_batch": lambda: paged_batch()[4],
    "paged_batch_wrong_slots": lambda: paged_batch(functions=functions(compute_slot_mapping=by_row_index))[2],
    "paged_batch_wrong_table": lambda: paged_batch(functions=all_wrong("pad_block_tables"))[4],
    "paged_batch_shared_prefix": lambda: paged_batch(SHARED_PREFIX)[11],
    "paged_batch_shared_blocks": lambda: paged_batch(SHARING)[0],
    "hash_chain": lambda: chain({"A": A}),
    "hash_chain_hits": lambda: chain({"A": A, "again": A}, hits=hits_of({"A": A, "again": A}, HashPrefixCache(4), 4)),
    "hash_chain_five": lambda: chain(PROMPTS, salts=SALTS),
    "hash_chain_without_hashes": lambda: hash_chain(PROMPTS, 4, salts=SALTS),
    "hash_chain_wrong": CHAINS["wrong hashes"],
    "automaton": CHAINS["automaton"],
    "image_chunks": CHAINS["image chunks"],
    "windows": CHAINS["windows"],
    "transfers": CHAINS["transfers"],
    "batching": batching,
    "race": lambda: race({"FCFS": runs.queued("fcfs"), "PRIORITY": runs.queued("priority")})[6],
    "stutter": lambda: first_of(
        stutter({"whole": runs.typed(0), "chunks of 8": runs.typed(8)}, "A", lambda n: 5.0 + n)
    ),
    "gates": lambda: gates(large())[3],
    "prefix_tree": lambda: prefix_tree(small())[6],
    "prefix_tree_shared": lambda: prefix_tree(in_blocks_of_4(runs.AGAIN, 12, 4))[1],
    "drafts": lambda: first_of(draft_film(ahead())),
    "drafts_planned_ahead": lambda: first_of(draft_film(ahead(asynchronous=True))),
    "drafts_as_text": lambda: first_of(draft_film(ahead(), texts=dict.fromkeys(range(256), " a\n") | {0: ""})),
    "drafts_in_vain": lambda: draft_film(in_vain()[0])[in_vain()[1]],
    "drafts_of_a_run_without": lambda: draft_film(small())[0],
    "lanes": lambda: lanes(RUNS, 4, 8),
    "lanes_in_vain": lambda: lanes({"ahead": wasted()}, 4, 8, width=1000),
    "chunking_dial": lambda: dial(Setting(max_num_batched_tokens=512)),
    "chunking_dial_turned": lambda: dial(Setting(max_num_batched_tokens=512), Setting()),
    "chunking_dial_not_realistic": lambda: dial(Setting("documents", 120, 8192), gpu="L4"),
    "calculator": calculator_picture,
    "policy_comparison": lambda: policies([2.0] * 9, [2.0] * 9, [2.0] * 9),
    "policy_comparison_starved": lambda: policies([2.0] * 9, [1.0, 2.0, 2.0] * 3, [1.0] * 7 + [20.0, 30.0]),
    "bars": lambda: bars(
        "a very long title that has to go on in a second line",
        {"1,000 blocks": 20.0, "2,000 blocks": 5.0, "8,000 blocks": 0.0},
        {"1,000 blocks": "20 s", "2,000 blocks": "5 s", "8,000 blocks": "0 s", "9,000 blocks": "-"},
        marks={"1,000 blocks": 16.0, "2,000 blocks": 0.0},
        as_text="{:.0f}".format,
        indices={"1,000 blocks": 0, "2,000 blocks": 1, "8,000 blocks": 2, "9,000 blocks": 3},
    ),
    "bars_far_apart": lambda: bars(
        "TTFT", {"short": 0.0141, "long": 2.53, "none": 0}, {"short": "14.1 ms", "long": "2.53 s", "none": "0"}
    ),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_view_is_as_it_was_reviewed(name: str, snapshots: Snapshots) -> None:
    picture = SNAPSHOTS[name]()
    assert is_sound(picture)
    snapshots.check(name, outline(picture))


def test_every_snapshot_is_of_a_view(snapshots: Snapshots) -> None:
    assert snapshots.names() == set(SNAPSHOTS)
