"""Collects and describes a picture's data: a step's verdicts, the text before the step, and the counts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mini_vllm_labs.pictures.text import counted, facts, spaced
from mini_vllm_labs.runs.traces.drafts import STAND_IN, DraftCounts, Verdict, verdicts_of
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunInfo

MAX_ROWS = 4
MAX_SENTENCES = 2
STAYS = "A block stays with its request until the request ends."
END = "end"  # shown for an end-of-answer token, which has no text


@dataclass(frozen=True)
class DraftScene:
    """A step. `verdicts` contains the verdicts for the rows shown, with None for a request that the step did not
    compute.

    `before` contains each request's output tokens at the time the step was computed, and `texts` contains each token's
    text.
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
        """Return a count of drafts, or of placeholders for drafts in a run that is planned ahead."""
        thing = counted(number, "place" if self.has_stand_ins else "draft")
        return f"{thing} for drafts" if self.has_stand_ins else thing

    def name(self, token_id: int) -> str:
        """Return a token's label: its text with spaces and line breaks made visible, or its number."""
        if token_id == STAND_IN:
            return "?"
        text = self.texts.get(token_id, str(token_id))
        return text.replace(" ", "·").replace("\n", "⏎") or END

    @property
    def shown(self) -> list[Verdict]:
        return [verdict for name in self.rows if (verdict := self.verdicts[name]) is not None]


def scenes(recording: Recording, texts: Mapping[int, str]) -> Iterator[DraftScene]:
    info, steps = recording.info, recording.steps
    before: dict[str, tuple[int, ...]] = dict.fromkeys(info.titles, ())
    has_stand_ins = any(STAND_IN in share.get("drafts", []) for record in steps for share in record["scheduled"])
    counts = DraftCounts()
    for step, verdicts in enumerate(verdicts_of(steps)):
        found = {verdict.request_id: verdict for verdict in verdicts}
        counts = counts.plus(verdicts)
        rows = tuple(info.titles if len(info.titles) <= MAX_ROWS else list(found)[:MAX_ROWS])
        yield DraftScene(
            step=step,
            num_steps=len(steps),
            info=info,
            rows=rows,
            verdicts={i: found.get(i) for i in rows},
            before=dict(before),
            counts=counts,
            num_hidden=len(found.keys() - set(rows)),
            texts=texts,
            has_stand_ins=has_stand_ins,
        )
        for verdict in verdicts:
            before[verdict.request_id] += tuple(verdict.kept)


def describe(scene: DraftScene) -> str:
    """Describe what happened to the drafts; requests with both accepted and rejected drafts come first."""
    judged = [verdict for verdict in scene.shown if verdict.drafts and verdict.sampled]
    judged.sort(key=lambda verdict: not verdict.num_accepted > 0 < verdict.num_rejected)
    said = [sentence(scene, verdict) for verdict in judged[:MAX_SENTENCES]]
    said += [
        f"{scene.info.label(one.request_id)} had ended: its share is in vain." for one in scene.shown if one.in_vain
    ]
    if any(verdict.num_rejected for verdict in judged):
        said.append(STAYS)
    if said:
        return " ".join(said)
    if not any(verdict.sampled for verdict in scene.shown):
        return "No request of this step gets a token."
    return "No drafts to verify: each request that samples gets one token."


def sentence(scene: DraftScene, verdict: Verdict) -> str:
    label, drafts = scene.info.label(verdict.request_id), len(verdict.drafts)
    got = f"{label} gets {counted(len(verdict.kept), 'token')}"
    if STAND_IN in verdict.drafts:
        return f"{got}: {verdict.num_accepted} of its {drafts} places for drafts held a right one."
    if not verdict.num_rejected:
        return f"{got}: all of its {counted(drafts, 'draft')} and the target's token after them."
    slots = f"{counted(verdict.num_rejected, 'slot')} {'is' if verdict.num_rejected == 1 else 'are'} taken back"
    return f"{got}: {verdict.num_accepted} of {counted(drafts, 'draft')} right, then the target's own; {slots}."


def text_alternative(scene: DraftScene) -> str:
    counts = scene.counts
    pairs = zip(counts.accepted, counts.proposed, strict=True)
    lines: list[tuple[str, object]] = [
        (f"step {scene.step} of {scene.num_steps - 1}", f"blocks of {scene.info.block_size} slots"),
        ("what happened", describe(scene)),
        ("tokens per step and request", f"{counts.tokens_per_step:.2f}"),
        ("drafts accepted", f"{sum(counts.accepted)} of {sum(counts.proposed)}"),
        ("by position", spaced(f"{accepted}/{proposed}" for accepted, proposed in pairs)),
    ]
    for request_id in scene.rows:
        lines += about(scene, request_id, scene.info.label(request_id))
    lines += [("requests not shown", scene.num_hidden)] * (scene.num_hidden > 0)
    return facts(lines)


def about(scene: DraftScene, request_id: str, label: str) -> list[tuple[str, object]]:
    verdict = scene.verdicts[request_id]
    if verdict is None:
        return [(label, "not in this step")]
    end = verdict.num_computed_after if verdict.sampled else verdict.num_planned
    end = 0 if verdict.in_vain else end
    return [
        (f"{label}, drafts", spaced(map(scene.name, verdict.drafts))),
        (f"{label}, accepted", verdict.num_accepted),
        (f"{label}, sampled", spaced(map(scene.name, verdict.sampled))),
        (f"{label}, kept", len(verdict.kept)),
        (f"{label}, tokens computed", f"{verdict.num_computed} before, {verdict.num_planned} planned, {end} after"),
        (f"{label}, slots taken back", verdict.num_rejected if verdict.sampled else 0),
        (f"{label}, blocks", spaced(verdict.blocks)),
    ]
