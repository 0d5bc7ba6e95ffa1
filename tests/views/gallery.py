"""Pictures of all views, by name: usual runs, and the extremes that a drawing has to hold."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product

from course.simulator.served import Slo
from course.views.block_life import block_life
from course.views.calculator import Setup, calculator_picture, capacity_of
from course.views.chunking_dial import Deployment, Setting, chunking_picture, try_setting
from course.views.film import Film
from course.views.hash_chain import hash_chain, hits_of
from course.views.paged_batch import paged_batch
from course.views.picture import Picture
from course.views.policy_comparison import PolicyComparison, compare_policies, policy_picture
from course.views.time_machine import compare, time_machine
from mini_vllm import parse_lineup
from solutions.phase4_prefix_cache import HashPrefixCache, hash_block
from tests.views.runs import in_a_huge_pool, large, observed, small
from tests.views.test_hash_chain import PROMPTS, SALTS, forgets_the_parent, many
from tests.views.test_paged_batch import by_row_index, extremes, functions, random_batch

FILMS: dict[str, Callable[[], Film]] = {
    "time machine": lambda: time_machine(small()),
    "of a shipped trace": lambda: time_machine(observed()),
    "of phase 1 alone": lambda: time_machine(observed("phase_1_alone")),
    "of many requests": lambda: time_machine(small(3, 40)),
    "of a large run": lambda: time_machine(large()),
    "in a huge pool": lambda: time_machine(in_a_huge_pool(small())),
    "compare": lambda: compare(small(), small(caching=False), ("caching on", "caching off")),
    "block life": lambda: block_life(small()),
    "block life of a shipped trace": lambda: block_life(observed()),
    "block life of a large run": lambda: block_life(large()),
    "one block": lambda: block_life(small(5, 1), [1]),
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
    "chains without hashes": lambda: hash_chain({"the first prompt": list(range(80)), "the second": [1]}, 4),
}


def dials() -> Iterator[Picture]:
    """Every knob at both ends, each setting after the one before it."""
    few = Deployment(num_requests=200)
    ends = product(("mixed", "documents", "burst", "chat"), (50, 120), (256, 8192), (0, 128, 4096), (8, 256))
    trials = [try_setting(Setting(*values), few) for values in [*ends][::5]]
    yield chunking_picture(trials[0])
    yield from (chunking_picture(now, before) for before, now in pairwise(trials))
    yield chunking_picture(try_setting(Setting("documents", 120, 8192), Deployment("L4", num_requests=500)), trials[0])


def calculators() -> Iterator[Picture]:
    """Every knob at both ends, except contexts that the model does not take."""
    hardware = product(("embedded", "Llama-3.1-8B", "Llama-3.1-70B"), ("L4", "B200"), (1, 8), (1, 2), (0.3, 0.98))
    settings = product(hardware, (8, 128), (512, 2048, 131_072), (1, 512))
    for machine, block_size, context_len, max_num_seqs in [*settings][::7]:
        if machine[0] != "embedded" or context_len <= 2048:
            yield calculator_picture(capacity_of(Setup(*machine, block_size, context_len, max_num_seqs)))


def policies() -> Iterator[Picture]:
    """Every workload, crowded and alone, with objectives that every request meets and that none meets."""
    lineup = parse_lineup("solution:1-5")
    for workload, (load, blocks, sigma) in product(
        ("chat", "documents", "shared-prefix", "mixed", "burst"), ((50, 4000, 0.0), (200, 800, 2.0))
    ):
        comparison = PolicyComparison(workload, load, blocks, sigma, num_requests=40)
        results = compare_policies(comparison, lineup)
        yield from (policy_picture(comparison, results, slo) for slo in (Slo(0.1, 0.1), Slo(10, 0.005)))


KNOBS: dict[str, Callable[[], Iterator[Picture]]] = {
    "chunking dial": dials,
    "calculator": calculators,
    "policy comparison": policies,
}


def pictures_of(name: str) -> list[Picture]:
    """Return the pictures under a name: a few steps of a film, or all of a panel."""
    if name in CHAINS:
        return [CHAINS[name]()]
    if name in KNOBS:
        return list(KNOBS[name]())
    film = FILMS[name]()
    return list(film.pictures[:: max(1, len(film) // 6)])
