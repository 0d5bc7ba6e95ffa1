"""Write `docs/what-a-year-changed.md` from the rules and settings of each release of vLLM.

Run it as `python -m mini_vllm_labs.upkeep.what_changed`.
"""

from pathlib import Path

from mini_vllm.release_rules import RELEASES, SETTINGS, rules

PAGE = Path(__file__).parents[2] / "docs" / "what-a-year-changed.md"
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
INTRODUCTION = f"""\
# What a year changed

The phases of the course decide as vLLM {OLDEST} does (December 2025). `EngineConfig(vllm="{NEWEST}")` decides as the
release of November 2026. `mini-vllm parity` replays recordings of both. `python -m mini_vllm_labs.upkeep.what_changed`
writes this page from `mini_vllm/release_rules.py`, where each rule has the release since which it holds. The recording
in the last column (`mini_vllm_labs/runs/parity/traces33`) differs without the rule: a test turns each rule off.

## Rules
"""


def page() -> str:
    """Return the page as Markdown: a table of rules in the order of their releases, and one of settings."""
    lines = [INTRODUCTION, f"| Since | vLLM {OLDEST} | Later | Why | Recording |", "| --- | --- | --- | --- | --- |"]
    found = sorted((one.metadata for one in rules()), key=lambda data: int(data["since"].split(".")[1]))
    lines += [f"| {d['since']} | {d['before']} | {d['now']} | {d['why']} | `{d['trace']}` |" for d in found]
    lines += ["", "## Settings", "", "| Since | Setting | Default | Meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| {s.since} | `{name}` | `{s.default}` | {s.meaning} |" for name, s in SETTINGS.items()]
    lines += ["", f"vLLM {OLDEST} knows none of them, and the engine refuses them there by name.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
