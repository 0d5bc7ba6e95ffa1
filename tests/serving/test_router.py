"""Which replica gets a request: by turns, by load, by the prefix that it knows."""

import random

import pytest

from serving.router.policies import LeastLoaded, PrefixAware, RoundRobin, Router, chained

IDLE = {0: 0, 1: 0, 2: 0}


def test_round_robin_takes_turns_among_those_that_can_be_reached() -> None:
    router = RoundRobin()
    assert [router.choose((), IDLE) for _ in range(5)] == [0, 1, 2, 0, 1]
    assert {router.choose((), {0: 9, 2: 0}) for _ in range(4)} == {0, 2}


def test_least_loaded_counts_unfinished_requests() -> None:
    assert LeastLoaded().choose((), {0: 3, 1: 1, 2: 2}) == 1
    assert LeastLoaded().choose((), {0: 3, 2: 3}) == 0


def test_a_key_covers_all_blocks_before_it() -> None:
    one, other = chained(["a", "b", "c"]), chained(["x", "b", "c"])
    assert chained(["a", "b"]) == one[:2]
    assert not set(one) & set(other)


def test_a_conversation_stays_where_its_beginning_is() -> None:
    router = PrefixAware()
    turns = [chained(list("system")[: n + 2]) for n in range(4)]
    first = router.choose(turns[0], {0: 2, 1: 0, 2: 1})
    assert first == 1, "nobody knows it: the least loaded one"
    for turn in turns[1:]:
        assert router.choose(turn, {0: 0, 1: 9, 2: 0}) == first
    assert router.num_known_blocks(chained(list("system")), first) == 5


def test_the_longest_prefix_counts_and_of_equal_ones_the_load() -> None:
    router = PrefixAware()
    router.choose(chained(["a", "b"]), {0: 0})
    router.choose(chained(["a", "b", "c"]), {1: 0})
    assert router.choose(chained(["a", "b", "c", "d"]), {0: 0, 1: 9, 2: 0}) == 1
    assert router.choose(chained(["a", "b", "x"]), {0: 1, 1: 0, 2: 0}) == 1
    assert router.choose(chained(["z"]), {0: 4, 1: 5, 2: 3}) == 2


def test_a_replica_with_far_more_to_do_is_passed_over() -> None:
    router = PrefixAware(most_imbalance=4)
    router.choose(chained(["a"]), {0: 0})
    assert router.choose(chained(["a"]), {0: 4, 1: 0}) == 0
    assert router.choose(chained(["a"]), {0: 5, 1: 0}) == 1
    assert router.choose(chained(["a"]), {0: 4, 1: 3}) == 1, "now both know it"


def test_a_replica_that_begins_anew_knows_nothing() -> None:
    router = PrefixAware()
    router.choose(chained(["a"]), {1: 0})
    router.forget(1)
    router.forget(2)
    assert router.num_known_blocks(chained(["a"]), 1) == 0
    assert router.choose(chained(["a"]), IDLE) == 0


def test_what_was_not_used_for_longest_is_forgotten_last_blocks_first() -> None:
    router = PrefixAware(max_blocks_known=4)
    old, new = chained(["o1", "o2", "o3"]), chained(["n1", "n2"])
    router.choose(old, {0: 0})
    router.choose(new, {0: 0})
    assert router.num_known_blocks(old, 0) == 2
    assert router.num_known_blocks(new, 0) == 2
    router.choose(old[:1], {0: 0})
    router.choose(chained(["m1", "m2"]), {0: 0})
    assert (router.num_known_blocks(old, 0), router.num_known_blocks(new, 0)) == (1, 1)


@pytest.mark.parametrize("router", [RoundRobin(), LeastLoaded(), PrefixAware(max_blocks_known=50, most_imbalance=3)])
def test_only_replicas_that_can_be_reached_are_chosen(router: Router) -> None:
    rng = random.Random(0)
    for _ in range(500):
        loads = {replica: rng.randrange(9) for replica in rng.sample(range(5), rng.randint(1, 5))}
        prefix = chained([rng.randrange(3) for _ in range(rng.randrange(6))])
        assert router.choose(prefix, loads) in loads
        if rng.random() < 0.1:
            router.forget(rng.randrange(5))
