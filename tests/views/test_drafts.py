"""Drafts in the drawing, in the text, and in the records: the three agree, with and without planning ahead."""

import copy
from dataclasses import replace

import pytest

from course.traces.drafts import STAND_IN, DraftCounts, Verdict, verdicts_of
from course.traces.recording import Recording
from course.views.drafts import draft_film
from course.views.show import player
from tests.views.drawing import count, described, texts, tree
from tests.views.runs import ahead, small


def verdict(drafts: list[int], sampled: list[int], **other: object) -> Verdict:
    usual = {"num_computed": 10, "num_scheduled": 1 + len(drafts), "kept": sampled, "blocks": [3, 5, 4, 9]}
    return Verdict(request_id="A", drafts=drafts, sampled=sampled, **(usual | other))  # type: ignore[arg-type]


def test_a_verdict_counts_the_drafts_up_to_the_first_wrong_one() -> None:
    judged = verdict([7, 8, 9], [7, 1])
    assert (judged.num_accepted, judged.num_rejected) == (1, 2)
    assert (judged.num_planned, judged.num_computed_after) == (14, 12)
    counts = DraftCounts().plus([judged, verdict([], [4]), verdict([], [])])
    assert (counts.num_shares, counts.num_tokens, counts.tokens_per_step) == (2, 3, 1.5)
    assert (counts.proposed, counts.accepted) == ((1, 1, 1), (1, 0, 0))
    assert counts.plus([verdict([1, 2, 3, 4], [1, 2, 3, 4, 5])]).accepted == (2, 1, 1, 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_share_begins_where_the_kept_tokens_end(asynchronous: bool) -> None:
    """Also asynchronously, where the plan had counted the drafts of the step before as right."""
    recording = ahead(asynchronous=asynchronous)
    computed: dict[str, int] = {}
    num_corrected = 0
    for record, verdicts in zip(recording.steps, verdicts_of(recording.steps), strict=True):
        for share, judged in zip(record["scheduled"], verdicts, strict=True):
            num_corrected += share["computed"] != judged.num_computed
            if share["kind"] == "running" and not judged.in_vain:
                assert judged.num_computed == computed[share["id"]]
            computed[share["id"]] = judged.num_computed_after if judged.sampled else judged.num_planned
            assert list(judged.sampled[: len(judged.kept)]) == list(judged.kept)
    assert (num_corrected > 0) is asynchronous
    kept = [token for verdicts in verdicts_of(recording.steps) for judged in verdicts for token in judged.kept]
    assert len(kept) == sum(len(tokens) for record in recording.steps for _, tokens in record["output"]) > 30


def test_the_film_begins_where_both_kinds_of_drafts_are() -> None:
    film = draft_film(ahead())
    first = film[film.first]
    assert player(film).step == film.first > 0
    assert count(first, "mv-accepted")
    assert count(first, "mv-rejected")
    assert player(film, 0).step == 0
    assert draft_film(small()).first == 0, "a run without drafts begins at its beginning"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_every_draft_is_drawn_as_what_became_of_it(asynchronous: bool) -> None:
    recording = ahead(asynchronous=asynchronous)
    film = draft_film(recording)
    seen = 0
    for picture, verdicts in zip(film.pictures, verdicts_of(recording.steps), strict=True):
        accepted = sum(judged.num_accepted for judged in verdicts)
        drafts = sum(len(judged.drafts) for judged in verdicts)
        known = [judged for judged in verdicts if judged.sampled and STAND_IN not in judged.drafts]
        wrong = sum(judged.num_rejected > 0 for judged in known)
        assert count(picture, "mv-accepted") == accepted
        assert count(picture, "mv-rejected") == wrong
        assert count(picture, "mv-unread") == drafts - accepted - wrong
        assert count(picture, "mv-kept-token") == sum(len(judged.sampled) for judged in verdicts)
        assert "-1" not in texts(tree(picture)), "a stand-in is no token"
        facts = described(picture)
        for judged in verdicts:
            label = recording.info.label(judged.request_id)
            assert facts[f"{label}, accepted"] == str(judged.num_accepted)
            assert facts[f"{label}, kept"] == str(len(judged.kept))
            assert facts[f"{label}, slots taken back"] == str(judged.num_rejected if judged.sampled else 0)
        seen += accepted
    assert seen > 5
    assert described(film[len(film) - 1])["drafts accepted"].startswith(f"{seen} of ")


def in_vain() -> tuple[Recording, int]:
    """A run planned ahead in which a request had ended when its step came back, and the number of that step."""
    recording = ahead(0, asynchronous=True)
    steps = copy.deepcopy(list(recording.steps))
    late = next(k for k, record in enumerate(steps) if record["scheduled"] and steps[k + 1]["scheduled"])
    steps[late]["finished"], steps[late]["sampled"] = [(steps[late]["scheduled"][0]["id"], "stop", None)], {}
    return replace(recording, steps=steps), late


def test_a_share_in_vain_says_so() -> None:
    recording, late = in_vain()
    assert verdicts_of(recording.steps)[late][0].in_vain
    usual = verdicts_of(ahead(0, asynchronous=True).steps)
    assert not any(one.in_vain for verdicts in usual for one in verdicts), "no stop token"
