"""Writes the outcome of a run for other projects' CI: JUnit XML, and the JSON for a shields.io badge."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from mini_vllm_labs.conformance.drive import ScenarioOutcome
from mini_vllm_labs.conformance.report import asked, failure, printable


def write_junit(path: Path, verdicts: Sequence[ScenarioOutcome]) -> None:
    """Write one test case for each scenario: `error` if the engine broke, or `skipped` with the reason."""
    counts = {
        "tests": len(verdicts),
        "failures": sum(one.failed and one.outcome == "differs" for one in verdicts),
        "errors": sum(one.outcome == "broken" for one in verdicts),
        "skipped": sum(one.outcome == "skipped" for one in verdicts),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    suite = ElementTree.Element("testsuite", {"name": "vllm-scheduler-conformance", **numbers})
    for one in verdicts:
        names = {"classname": f"{one.scenario.release}.{one.scenario.kind}", "name": one.scenario.name}
        case = ElementTree.SubElement(suite, "testcase", names)
        if one.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=printable(one.why))
        elif one.failed:
            told = list(failure(one, {}))
            what = "error" if one.outcome == "broken" else "failure"
            ElementTree.SubElement(case, what, message=told[-1].strip()).text = "\n".join(told)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_badge(path: Path, verdicts: Sequence[ScenarioOutcome]) -> None:
    """Write the JSON that shields.io's endpoint badge reads."""
    counted = asked(verdicts)
    same = sum(one.outcome == "same" for one in counted)
    color = "lightgrey" if not counted else "brightgreen" if same == len(counted) else "orange"
    releases = ", ".join(sorted({one.scenario.release for one in counted}))
    badge = {"schemaVersion": 1, "label": f"vLLM {releases} scheduler".replace("  ", " ")}
    badge |= {"message": f"{same} of {len(counted)} scenarios", "color": color}
    path.write_text(json.dumps(badge) + "\n", encoding="utf-8")
