"""The changelog has the format of Keep a Changelog, and the log of experiments has dates."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_releases_are_in_order_and_the_latest_is_this_version() -> None:
    first, *others = [line.removeprefix("## ") for line in LINES if line.startswith("## ")]
    assert first == "Unreleased"
    releases = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", title) for title in others]
    assert all(releases), f"not VERSION - DATE: {others}"
    keys = [(tuple(int(part) for part in found.groups()[:3]), found[4]) for found in releases if found]
    assert all(newer > older and newer[1] >= older[1] for newer, older in pairwise(keys))
    assert f'version = "{others[0].split()[0]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_sections_are_kinds_of_changes_and_entries_are_short() -> None:
    assert len(LINES) <= 250
    assert {line.removeprefix("### ") for line in LINES if line.startswith("### ")} <= set(KINDS)
    entries = re.split(r"\n(?=- |#|\n)", "\n".join(LINES))
    entries = [" ".join(entry.split()) for entry in entries if entry.startswith("- ")]
    assert len(entries) > 100, "the search finds no entries"
    assert [entry for entry in entries if re.search(r"\. (?=[A-Z`])", entry)] == [], "two sentences"
    assert [entry for entry in entries if not entry.endswith(".")] == []


def test_the_log_is_by_date_newest_first() -> None:
    log = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    days = re.findall(r"^## (\S+)(?: and \d\d)?$", log, re.MULTILINE)
    assert len(days) == log.count("\n## ")
    assert days == sorted(days, reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in days)
