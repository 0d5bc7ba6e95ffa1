"""Adds the points for learners' own tests, from `mini-vllm grade-tests --sheet`, to the results of a class."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mini_vllm_labs.classroom.judge.report import file_name
from mini_vllm_labs.classroom.judge.results import ClassResults
from mini_vllm_labs.grading.own_tests.grade import POINTS, read_points


@dataclass(frozen=True)
class OwnTests:
    """The points per phase in each file of a folder, keyed by file name without extension."""

    points: Mapping[str, Mapping[str, int]]

    @classmethod
    def read(cls, folder: Path) -> "OwnTests":
        """Read all files. Raises `ValueError` if there are no files, or if a file has the wrong format."""
        paths = sorted(folder.glob("*.json"))
        if not paths:
            raise ValueError(f"--tests {folder} has no results: name a folder with files such as alice.json")
        found = {path.stem: read_points(path) for path in paths}
        return cls({name: {phase: one["points"] for phase, one in phases.items()} for name, phases in found.items()})

    def added_to(self, results: ClassResults) -> tuple[ClassResults, list[str]]:
        """Return the results with these points added, and a sentence for each file that has no submission."""
        names = {file_name(one["name"]): one["name"] for one in results.submissions}
        points = {names[name]: sum(phases.values()) for name, phases in self.points.items() if name in names}
        notes = [f"{name}: tests, but no submission" for name in self.points if name not in names]
        phases = {phase for one in self.points.values() for phase in one}
        return replace(results, tests=points, max_tests=POINTS * len(phases)), notes
