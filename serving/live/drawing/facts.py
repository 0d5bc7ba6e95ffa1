"""The figures and the text of a step."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from course.traces.run_state import RunState
from course.traces.sentences import describe_step
from course.views.text import counted, facts, ranges, spaced
from serving.live.drawing.live_run import LiveRun

MAX_CHARACTERS = 40


def figures_of(run: LiveRun, state: RunState) -> dict[str, Any]:
    """Return the numbers above a picture."""
    assert state.record is not None
    record, info = state.record, run.info
    return {
        "step": record["step"],
        "running": len(record["running_after"]),
        "waiting": len(record["waiting_after"]),
        "tokens": record["total"],
        "blocks": info.num_blocks - record["free_after_schedule"],
        **asdict(run.totals[record["step"]]),
    }


def text_of(run: LiveRun, state: RunState, constants: Mapping[str, Any]) -> str:
    """Return every fact of a picture as lines of text; of a long list its beginning."""
    assert state.record is not None
    record, info, totals = state.record, run.info, run.totals[state.record["step"]]

    def labels(request_ids: Iterable[str]) -> str:
        return spaced(map(info.label, request_ids), MAX_CHARACTERS)

    shares = [
        f"{info.label(share['id'])} {share['n']} {'decode' if state.is_decode(share) else 'prefill'}"
        for share in record["scheduled"]
    ]
    hits = [f"{info.label(share['id'])} {share['hit']}" for share in record["scheduled"] if share.get("hit")]
    verdicts = [v for v in run.verdicts(record["step"]) if v.drafts and v.sampled]
    drafts = [f"{info.label(v.request_id)} {v.num_accepted} of {len(v.drafts)}" for v in verdicts]
    held = len(state.holders())
    return facts(
        [
            ("step", f"{record['step']:,}"),
            ("what happened", describe_step(state)),
            ("token budget", f"{record['total']} of {info.token_budget}: {', '.join(shares) or 'none'}"),
            ("in the prefix cache, not computed", ", ".join(hits)),
            *([("drafts accepted", ", ".join(drafts))] if constants["num_drafts"] else []),
            ("running", labels(name for name, *_ in record["running_after"])),
            ("waiting", labels(record["waiting_after"])),
            ("preempted", labels(victim for victim, *_ in record["preempted"])),
            ("finished", labels(name for name, *_ in record["finished"])),
            ("memory", f"{held} of {counted(info.num_blocks, info.unit)} of {info.block_size} slots held"),
            *[(f"{info.unit}s of {info.label(i)}", ranges(table)) for i, table in state.tables.items() if table],
            ("just taken", ranges(state.pool.taken)),
            ("free, content kept", f"{len(state.cached() - state.holders().keys())}"),
            ("free queue, next first", spaced(state.pool.free_queue, MAX_CHARACTERS)),
            ("so far", f"{totals.ended} requests ended, {totals.preemptions} preemptions"),
        ]
    )
