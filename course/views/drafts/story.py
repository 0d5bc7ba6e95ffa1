"""What a step says of its drafts, as sentences and as text."""

from course.traces.drafts import STAND_IN, Verdict
from course.views.drafts.scene import Scene
from course.views.text import counted, facts, spaced

MAX_SENTENCES = 2
STAYS = "A block stays with its request until the request ends."


def describe(scene: Scene) -> str:
    """Return what became of the drafts: requests with both kinds come first."""
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


def sentence(scene: Scene, verdict: Verdict) -> str:
    """Return one request's verdict."""
    label, drafts = scene.info.label(verdict.request_id), len(verdict.drafts)
    got = f"{label} gets {counted(len(verdict.kept), 'token')}"
    if STAND_IN in verdict.drafts:
        return f"{got}: {verdict.num_accepted} of its {drafts} places for drafts held a right one."
    if not verdict.num_rejected:
        return f"{got}: all of its {counted(drafts, 'draft')} and the target's token behind them."
    slots = f"{counted(verdict.num_rejected, 'slot')} {'is' if verdict.num_rejected == 1 else 'are'} taken back"
    return f"{got}: {verdict.num_accepted} of {counted(drafts, 'draft')} right, then the target's own; {slots}."


def text_alternative(scene: Scene) -> str:
    """Return every fact of the picture as lines of text."""
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


def about(scene: Scene, request_id: str, label: str) -> list[tuple[str, object]]:
    """Return the lines of one request."""
    verdict = scene.verdicts[request_id]
    if verdict is None:
        return [(label, "not in this step")]
    names = [scene.name(token_id) for token_id in verdict.drafts]
    end = verdict.num_computed_after if verdict.sampled else verdict.num_planned
    end = 0 if verdict.in_vain else end
    return [
        (f"{label}, drafts", spaced(names)),
        (f"{label}, accepted", verdict.num_accepted),
        (f"{label}, sampled", spaced(map(scene.name, verdict.sampled))),
        (f"{label}, kept", len(verdict.kept)),
        (f"{label}, tokens computed", f"{verdict.num_computed} before, {verdict.num_planned} planned, {end} after"),
        (f"{label}, slots taken back", verdict.num_rejected if verdict.sampled else 0),
        (f"{label}, blocks", spaced(verdict.blocks)),
    ]
