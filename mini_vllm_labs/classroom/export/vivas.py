"""Adds the points from vivas to the results of a class; each sheet is named after a submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mini_vllm_labs.classroom.judge.report import file_name
from mini_vllm_labs.classroom.judge.results import ClassResults
from mini_vllm_labs.viva.sheet import Sheet


@dataclass(frozen=True)
class Vivas:
    """The sheets in a folder, keyed by file name without extension."""

    sheets: Mapping[str, Sheet]

    @classmethod
    def read(cls, folder: Path) -> "Vivas":
        """Read all sheets. Raises `ValueError` if there are no sheets, or if a file has the wrong format."""
        found = dict[str, Sheet]()
        for path in sorted(folder.glob("*.json")):
            try:
                found[path.stem] = Sheet.from_json(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ValueError(f"--viva {path}: {error}") from None
        if not found:
            raise ValueError(f"--viva {folder} has no sheets: name a folder with files such as alice.json")
        return cls(found)

    def added_to(self, results: ClassResults) -> tuple[ClassResults, list[str]]:
        """Return the results with the vivas' points, and a sentence for each sheet that gives no points."""
        points, notes = dict[str, int](), list[str]()
        unused = set(self.sheets)
        for one in results.submissions:
            sheet = self.sheets.get(file_name(one["name"]))
            if sheet is None:
                continue
            unused.discard(file_name(one["name"]))
            digests = {str(phase["phase"]): phase["sha256"] for phase in one["phases"]}
            if not sheet.given:
                notes.append(f"{one['name']}: the sheet of the viva has no answers")
            elif any(digests.get(phase, digest) != digest for phase, digest in sheet.digests.items()):
                notes.append(f"{one['name']}: the viva was about other files than those handed in")
            else:
                points[one["name"]] = sheet.points
        notes += [f"{name}: a viva, but no submission" for name in sorted(unused)]
        return replace(results, vivas=points), notes

    def by_digests(self) -> list[dict[str, Any]]:
        """Return the points of each answered sheet, with its files' digests, for a system that does not know the
        names."""
        return [{"digests": one.digests, "points": one.points} for one in self.sheets.values() if one.given]


def points_for(digests: Mapping[str, str], vivas: Sequence[dict[str, Any]]) -> int | None:
    """Return the points from the viva about these files, or None if there is no viva."""
    found = [one["points"] for one in vivas if one["digests"].items() <= digests.items()]
    return found[0] if found else None
