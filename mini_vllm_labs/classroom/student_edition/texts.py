"""Adapts texts for the student edition, which must not mention folders that it does not contain."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EDITS_FILE = Path(__file__).with_name("edits.toml")
EDITS: Mapping[str, Sequence[tuple[str, str]]] = tomllib.loads(EDITS_FILE.read_text(encoding="utf-8"))
# Marks the handout paragraphs to remove. The checks on their numbers are also removed, because they need the solutions.
WITH_SOLUTIONS_TAG = "with-solutions"
LAUNCH_LINKS = re.compile(r'(<!-- launch links -->\\n",\n).*?( *"<!-- end of launch links -->)', re.DOTALL)
ADDRESS = re.compile(r'REPOSITORY = \\"[^"\\]*\\"')
CODE_WITH_SOLUTIONS = re.compile(r"^ *# with solutions\n.*?^ *# end\n", re.DOTALL | re.MULTILINE)
WITH_SOLUTIONS = re.compile(r"<!-- with solutions -->\n.*?<!-- end -->\n", re.DOTALL)
CHECK = r"<!-- check:(?:(?!-->).)*-->"
LINES_OF_CHECKS = re.compile(rf"^[ ]*(?:{CHECK}[ ]*)+\n", re.DOTALL | re.MULTILINE)
CHECKS_IN_LINES = re.compile(rf"(?:(?<=\S)[ ]*{CHECK}|{CHECK}[ ]*)", re.DOTALL)


class ReleaseError(ValueError):
    """A student edition cannot be created, or would contain a solution."""


def adapted(path: str, content: bytes) -> bytes:
    """Return a file's version for the student edition. Raises `ReleaseError` if an edit no longer applies."""
    if path.endswith(".ipynb"):
        return student_notebook(content)
    text = content.decode() if path in EDITS or path.endswith(".md") else ""
    for old, new in EDITS.get(path, ()):
        if old not in text:
            raise ReleaseError(
                f"{path} no longer contains {old!r}: update mini_vllm_labs/classroom/student_edition/edits.toml"
            )
        text = text.replace(old, new)
    if path in EDITS:
        text = CODE_WITH_SOLUTIONS.sub("", text)
    if path.endswith(".md"):
        text = WITH_SOLUTIONS.sub("", text)
        if "<!-- with solutions -->" in text or "<!-- end -->" in text:
            raise ReleaseError(f"{path} has '<!-- with solutions -->' without '<!-- end -->', or vice versa")
        text = CHECKS_IN_LINES.sub("", LINES_OF_CHECKS.sub("", text))
        text = re.sub(r"(?:solutions/)?(phase\d+_[a-z_]+)\.py", r"labs/\1/starter.py", text)
    return text.encode() if text else content


def student_notebook(content: bytes) -> bytes:
    """Return a notebook without outputs, execution counts, cells tagged `with-solutions`, or launch links."""
    notebook = json.loads(ADDRESS.sub('REPOSITORY = \\\\"\\\\"', LAUNCH_LINKS.sub(r"\1\2", content.decode())))
    notebook["cells"] = [cell for cell in notebook["cells"] if WITH_SOLUTIONS_TAG not in tags_of(cell)]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def tags_of(cell: Mapping[str, Any]) -> list[str]:
    tags: list[str] = cell.get("metadata", {}).get("tags", [])
    return tags
