"""Graded tests of task 1.4."""

import random
from types import ModuleType
from typing import Any

import pytest

from course.labtest.cost import check_constant_work, check_keeps_nothing
from course.labtest.expect import difference_report, fail_with_smallest
from course.labtest.phase1.cases import NUM_STATES, SEEDS
from course.labtest.phase1.random_cases import random_update
from course.labtest.phase1.updates import EOS, FIRST_OF_ALL, FREED, Update, caught_up, what_differs
from course.labtest.recorded import Answers
from course.labtest.work import work_of
from mini_vllm.core.request import Request


def test_sampled_tokens_are_appended(phase1: ModuleType) -> None:
    Update([caught_up("A"), caught_up("B", 3)], {"B": [12], "A": [11]}).check(
        phase1,
        "Every sampled token is appended to its request, and returned as kept.",
        "what has this step brought for each request? Into which of its lists do these go, and into your answer?",
        returned={"A": [11], "B": [12]},
        running="A B",
    )


@pytest.mark.parametrize(
    ("request_kwargs", "max_model_len", "token_id", "reason", "stop_reason"),
    [
        ({}, 1000, EOS, "stop", None),
        ({"ignore_eos": True}, 1000, EOS, None, None),
        ({"stop_token_ids": (8, 9)}, 1000, 9, "stop", 9),
        ({"stop_token_ids": (EOS,), "ignore_eos": True}, 1000, EOS, "stop", EOS),
        ({"max_tokens": 3}, 1000, 11, "length", None),
        ({"max_tokens": 4}, 1000, 11, None, None),
        ({}, 7, 11, "length", None),
        ({}, 8, 11, None, None),
        ({"max_tokens": 3}, 7, EOS, "stop", None),
        ({"max_tokens": 3, "stop_token_ids": (8,)}, 1000, 8, "stop", 8),
    ],
    ids=[
        "EOS",
        "EOS ignored",
        "stop token",
        "EOS ignored but a stop token",
        "max_tokens reached",
        "one below max_tokens",
        "max_model_len reached",
        "one below max_model_len",
        "EOS goes before length",
        "stop token goes before length",
    ],
)
def test_every_way_to_end(
    phase1: ModuleType,
    request_kwargs: dict[str, Any],
    max_model_len: int,
    token_id: int,
    reason: str | None,
    stop_reason: int | None,
) -> None:
    request = caught_up("A", 2, num_prompt=4, **request_kwargs)
    Update([request, caught_up("B", num_prompt=1)], {"A": [token_id], "B": [11]}, max_model_len=max_model_len).check(
        phase1,
        "check_stop returns whether a request is finished. If it is: its status is final, its last token is kept, its "
        "blocks are freed and it leaves RUNNING. If it is not: it goes on.",
        "does a request end here? At which of its tokens, and what does your code do when one ends?",
        returned={"A": [token_id], "B": [11]},
        running="A B" if reason is None else "B",
        finished={} if reason is None else {"A": reason},
        freed="" if reason is None else "A",
        stop_reasons={} if stop_reason is None else {"A": stop_reason},
    )


def test_tokens_behind_a_stop_are_dropped(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B", max_tokens=2), caught_up("C")]
    Update(running, {"A": [11, EOS, 12, EOS], "B": [11, 12, 13], "C": [11, 12, 13]}).check(
        phase1,
        "A step may sample several tokens of a request. Those after the one that ends it are dropped, and a request "
        "is freed once.",
        "at which token does each request end, if it does, and what becomes of the tokens after it in your code?",
        returned={"A": [11, EOS], "B": [11, 12], "C": [11, 12, 13]},
        running="C",
        finished={"A": "stop", "B": "length"},
        freed="A B",
    )


def test_hundreds_of_tokens_of_one_step_are_kept(phase1: ModuleType) -> None:
    tokens = list(range(100, 1000))
    running = [caught_up("A", max_tokens=2000), caught_up("B", max_tokens=600)]
    Update(running, {"A": tokens, "B": tokens}, max_model_len=5000).check(
        phase1,
        "All sampled tokens up to a stop are appended and returned, however many there are.",
        "is there a limit in your code besides the stop?",
        returned={"A": tokens, "B": tokens[:600]},
        running="A",
        finished={"B": "length"},
        freed="B",
        hint_fits=lambda yours: tokens != (kept := yours["outputs"]["A"]) == tokens[: len(kept)] != [],
    )


def test_requests_finish_in_the_order_of_the_step(phase1: ModuleType) -> None:
    running = [caught_up(name) for name in "ABCD"]
    sampled = {"A": [EOS], "B": [EOS], "C": [11], "D": [EOS]}
    Update(running, sampled, planned="DCBA").check(
        phase1,
        "The requests are updated in the order of the step, so their blocks are freed in that order.",
        "over which of the dictionaries does your loop go?",
        returned=sampled,
        running="C",
        finished={"A": "stop", "B": "stop", "D": "stop"},
        freed="D B A",
        hint_fits=lambda yours: sorted(yours[FREED]) == list("ABD") and yours[FREED] != list("DBA"),
    )


def test_neighbours_finish_together_and_the_order_stays(phase1: ModuleType) -> None:
    running = [caught_up(name) for name in "DBEAC"]
    sampled = {"B": [EOS], "D": [11], "E": [EOS], "C": [11], "A": [11]}
    Update(running, sampled).check(
        phase1,
        "The finished requests leave RUNNING, in the very list that was passed in; the others keep their order.",
        "which requests are in RUNNING at the end, in which order, and which list do you change for that?",
        returned=sampled,
        running="D A C",
        finished={"B": "stop", "E": "stop"},
        freed="B E",
        hint_fits=lambda yours: yours["RUNNING"] != list("DAC"),
    )


def test_an_aborted_request_is_skipped(phase1: ModuleType) -> None:
    Update([caught_up("B")], {"A": [11], "B": [12]}, planned="AB", gone="A").check(
        phase1,
        "A request that is no longer in `requests` is skipped, and its token is dropped.",
        "what does your code do with an id of the step that is no key of `requests`?",
        returned={"B": [12]},
        running="B",
    )


def test_a_request_without_a_token_is_not_in_the_answer(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B"), caught_up("C")]
    Update(running, {"B": [11], "C": []}).check(
        phase1,
        "A request in the middle of its prompt gets no token: it is left alone and is not in the answer.",
        "neither A nor C sampled. What does `sampled_token_ids` hold for A, and what for C?",
        returned={"B": [11]},
        running="A B C",
    )


def test_nothing_sampled_changes_nothing(phase1: ModuleType) -> None:
    Update([caught_up("A"), caught_up("B")], {}).check(
        phase1,
        "A step in which no request samples returns an empty dictionary and changes nothing.",
        "what do you return when no request got a token?",
        returned={},
        running="A B",
        hint_fits=lambda yours: yours["returned"] != {},
    )


def test_token_0_is_a_token_like_any_other(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B"), caught_up("C", stop_token_ids=(0,))]
    Update(running, {"A": [0], "B": [11, 0, 12], "C": [0, 11]}).check(
        phase1,
        "Token ids begin at 0: token 0 is kept, and it may be a stop token.",
        "`if token_id` and `if token_id is not None` differ for one id. Which?",
        returned={"A": [0], "B": [11, 0, 12], "C": [0]},
        running="A B",
        finished={"C": "stop"},
        freed="C",
        stop_reasons={"C": 0},
        hint_fits=lambda yours: yours["outputs"]["B"] in ([11], [11, 12]),
    )


def test_plan_and_sampled_tokens_are_left_as_they_are(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B")]
    Update(running, {"A": [11, EOS, 12], "B": [12]}).check(
        phase1,
        "The plan, the sampled tokens and `requests` belong to the caller: look, do not change.",
        "which of your lines removes something from an argument, or shortens a list in it?",
        returned={"A": [11, EOS], "B": [12]},
        running="B",
        finished={"A": "stop"},
        freed="A",
        hint_fits=lambda yours: bool(yours["also changed"]),
    )


def test_an_update_looks_at_its_own_requests_only(phase1: ModuleType) -> None:
    def work_with(num_waiting: int) -> int:
        update = Update([caught_up("A")], {"A": [EOS]}, waiting=[caught_up(f"w{n}") for n in range(num_waiting)])
        return work_of(lambda: update.apply(phase1), str(phase1.__file__))

    check_constant_work(
        work_with,
        "update_from_output for one request",
        "requests in `requests`",
        "An update takes the requests of the step: what it costs does not depend on how many wait.",
        "over what does your loop go: over the step, or over all of `requests`?",
    )


def test_updates_leave_nothing_behind(phase1: ModuleType) -> None:
    def use(name: str) -> Request:
        request = caught_up(name)
        Update([request], {name: [EOS]}).apply(phase1)
        return request

    check_keeps_nothing(
        phase1,
        use,
        what="requests ended",
        rule="Your file remembers no request that has ended: a server would never forget it.",
        hint="which list, dict or set outside of the function does an update add to?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_updates_agree_with_a_slow_model(phase1: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    reports = []
    for many in (*[1] * NUM_STATES, 20):
        update = random_update(rng, many)
        update.apply(phase1)
        yours, expected = update.outcome(), answers(update.outcome())
        reports.append(
            difference_report(
                yours,
                expected,
                rule="A random update does not follow the rules in the handout.",
                situation=update.before,
                hint=what_differs(yours, expected, labels=expected) or FIRST_OF_ALL,
            )
        )
    fail_with_smallest(reports)
