"""The data behind all parts of the picture: the verdicts of a step, the text before it, and the counts so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from course.traces.drafts import STAND_IN, DraftCounts, Verdict, verdicts_of
from course.traces.recording import Recording
from course.traces.run_state import RunInfo
from course.views.text import counted

MAX_ROWS = 4
END = "end"
"""What is shown of a token without any text: the one that ends an answer."""


@dataclass(frozen=True)
class Scene:
    """A step. `verdicts` are those of the shown rows, None for a request without a share in it.

    `before` are the output tokens of each request when the step was computed, `texts` the text of each token.
    """

    step: int
    num_steps: int
    info: RunInfo
    rows: tuple[str, ...]
    verdicts: Mapping[str, Verdict | None]
    before: Mapping[str, tuple[int, ...]]
    counts: DraftCounts
    num_hidden: int
    texts: Mapping[int, str]
    has_stand_ins: bool = False

    def num_drafts(self, number: int) -> str:
        """Return a number of drafts; of places for some in a run that is planned ahead."""
        thing = counted(number, "place" if self.has_stand_ins else "draft")
        return f"{thing} for drafts" if self.has_stand_ins else thing

    def name(self, token_id: int) -> str:
        """Return a token as it is shown: spaces and line ends visible, a number without a text."""
        if token_id == STAND_IN:
            return "?"
        text = self.texts.get(token_id, str(token_id))
        return text.replace(" ", "·").replace("\n", "⏎") or END

    @property
    def shown(self) -> list[Verdict]:
        """The verdicts of the rows that have one."""
        return [verdict for name in self.rows if (verdict := self.verdicts[name]) is not None]


def scenes(recording: Recording, request_id: str | None, texts: Mapping[int, str]) -> Iterator[Scene]:
    """Yield the scene of each step, of all requests or of one.

    Raises `ValueError` if there is no such request.
    """
    info, steps = recording.info, recording.steps
    if request_id is not None and request_id not in info.titles:
        raise ValueError(f"there is no request {request_id!r}; there are {', '.join(info.titles)}")
    chosen = list(info.titles) if request_id is None else [request_id]
    before: dict[str, tuple[int, ...]] = dict.fromkeys(info.titles, ())
    has_stand_ins = any(STAND_IN in share.get("drafts", []) for record in steps for share in record["scheduled"])
    counts = DraftCounts()
    for step, verdicts in enumerate(verdicts_of(steps)):
        found = {verdict.request_id: verdict for verdict in verdicts if verdict.request_id in chosen}
        counts = counts.plus(found.values())
        rows = tuple(chosen if len(chosen) <= MAX_ROWS else list(found)[:MAX_ROWS])
        hidden = len(found.keys() - set(rows))
        yield Scene(
            step=step,
            num_steps=len(steps),
            info=info,
            rows=rows,
            verdicts={i: found.get(i) for i in rows},
            before=dict(before),
            counts=counts,
            num_hidden=hidden,
            texts=texts,
            has_stand_ins=has_stand_ins,
        )
        for verdict in found.values():
            before[verdict.request_id] += tuple(verdict.kept)
