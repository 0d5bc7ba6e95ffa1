"""Writes `docs/what-a-year-changed.md` and the handouts' boxes from the rules of each vLLM release.

A box is a quotation that begins with "**Changed**" and names its rule. A box may be moved within a handout; the next
run updates it there. Run it as `python -m mini_vllm_labs.upkeep.what_changed`.
"""

import re
import textwrap
from pathlib import Path

from mini_vllm.release_rules import RELEASES, SETTINGS, change, rules

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what-a-year-changed.md"
HANDOUTS = {  # the phase whose handout teaches a rule
    "whole_sequence_must_fit": 1,
    "freed_without_content_first": 2,
    "loop_survives_self_preemption": 3,
    "threshold_spares_lone_request": 5,
    "lookahead_at_admission": 7,
    "single_tokens_are_padded": 7,
    "prefill_lookahead": 7,
    "hash_covers_next_token": 7,
    "accepted_blocks_enter_in_update": 7,
    "in_flight_is_forgotten": 8,
    "loads_leave_room": 10,
    "blocks_in_flight_stay": 10,
    "block_holders_first": 10,
    "images_have_places": 11,
    "images_leave_in_update": 11,
    "images_are_passed_over": 11,
    "running_adapters_count": 11,
    "windows_cache_the_end": 12,
}
BOX = re.compile(r"^> \*\*Changed\*\* \(`(\w+)`\)(?:.*\n)(?:> .*\n)*", re.MULTILINE)
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
INTRODUCTION = f"""\
# What a year changed

The course's phases make the same scheduling decisions as vLLM {OLDEST} (December 2025). With
`EngineConfig(vllm="{NEWEST}")`, the engine makes the same decisions as the November 2026 release. Learners write six of
that release's rules in [phase 14](../labs/phase14_year_of_vllm/README.md). `mini-vllm parity` replays recordings of
both releases. `python -m mini_vllm_labs.upkeep.what_changed` writes this page from `mini_vllm/release_rules.py`, which
also gives the release that introduced each rule. Without its rule, the recording in the last column
(`mini_vllm_labs/runs/parity/traces33`) comes out differently: a test turns each rule off to check this. The handouts
show the rules in boxes. One command records [the next release](next-release.md) and compares it.

## Rules
"""


def page() -> str:
    """Return the page as Markdown: a table of rules in release order, and a table of settings."""
    lines = [INTRODUCTION, f"| Since | vLLM {OLDEST} | Later | Why | Recording |", "| --- | --- | --- | --- | --- |"]
    found = sorted((one.metadata for one in rules()), key=lambda data: int(data["since"].split(".")[1]))
    lines += [f"| {d['since']} | {d['before']} | {d['now']} | {d['why']} | `{d['trace']}` |" for d in found]
    lines += ["", "## Settings", "", "| Since | Setting | Default | Meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| {s.since} | `{name}` | `{s.default}` | {s.meaning} |" for name, s in SETTINGS.items()]
    lines += [
        "",
        f"vLLM {OLDEST} supports none of these settings, so an engine that follows it rejects them by name.",
        "",
    ]
    return "\n".join(lines)


def box(name: str) -> str:
    """Return a rule's box as Markdown."""
    # a line that starts with # would become a heading
    text = f"**Changed** (`{name}`). {change(name)}".replace(" #", "\xa0#")
    lines = textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)
    return "".join(f"> {line}\n" for line in lines).replace("\xa0", " ")


def handout(phase: int) -> Path:
    """Return the path of a phase's handout."""
    return next((ROOT / "labs").glob(f"phase{phase}_*/README.md"))


def with_boxes(text: str, phase: int) -> str:
    """Update the boxes in a handout. A missing box is added before the tasks."""
    text = BOX.sub(lambda found: box(found[1]), text)
    taught = [name for name, place in HANDOUTS.items() if place == phase and f"(`{name}`)" not in text]
    boxes = "\n".join(map(box, taught))
    return text.replace("\n## Tasks\n", f"\n{boxes}\n## Tasks\n", 1) if boxes else text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for phase in set(HANDOUTS.values()):
        old = handout(phase).read_text(encoding="utf-8")
        handout(phase).write_text(with_boxes(old, phase), encoding="utf-8")
