"""The texts that differ in the student edition: they must not mention folders that it does not have."""

import json
import re
from collections.abc import Mapping
from typing import Any

# Edits to texts about folders that the student edition does not have. A text that is missing is an error.
EDITS = {
    "pyproject.toml": (
        (', "classroom*", "labs*", "solutions*"]', ', "labs*"]'),
        ('judge = ["pytest>=8.4", "pyseccomp>=0.1.2; sys_platform == \'linux\'"]\n', ""),
        (', "classroom", "labs", "solutions", "tests", "tools"]', ', "labs", "tools"]'),
        ('testpaths = ["tests", "labs"]', 'testpaths = ["labs"]'),
        ('"labs/*/starter*.py" = ["F401"]', '"labs/*/starter*.py" = ["F401"]\n"notebooks/*.ipynb" = ["F401"]'),
        (
            "[tool.pytest.ini_options]",
            '[[tool.mypy.overrides]]\nmodule = ["solutions.*", "classroom.*"]\nignore_missing_imports = true\n\n'
            "[[tool.mypy.overrides]]\n"
            'module = ["mini_vllm.assembly.parts", "labs.phase6_gpu_runner.optional_task6_8_triton"]\n'
            "warn_return_any = false\n\n"
            "[tool.pytest.ini_options]",
        ),
    ),
    "lab.py": (
        ("COMMANDS = {\n", 'COMMANDS = {\n    "test": [["-m", "cli", "grade"]],\n'),
        ("`test`, `test-all`, ", "`test`, "),
        ('".[test,judge,serve]"', '".[test,serve]"'),
    ),
    "Makefile": (
        (
            "watch the engine run on the model that comes with the course",
            "run the engine on the phases you have written",
        ),
        (
            "then test the installation and the engine (up to four minutes)",
            "then grade your code and name the next task",
        ),
        ("test test-all", "test"),
    ),
}
# The same for whole paragraphs of handouts, markers included. The checks of their numbers go too: they need the
# solutions.
WITH_SOLUTIONS_TAG = "with-solutions"
LAUNCH_LINKS = re.compile(r'(<!-- launch links -->\\n",\n).*?( *"<!-- end of launch links -->)', re.DOTALL)
ADDRESS = re.compile(r'REPOSITORY = \\"[^"\\]*\\"')
CODE_WITH_SOLUTIONS = re.compile(r"^ *# with solutions\n.*?^ *# end\n", re.DOTALL | re.MULTILINE)
WITH_SOLUTIONS = re.compile(r"<!-- with solutions -->\n.*?<!-- end -->\n", re.DOTALL)
CHECK = r"<!-- check:(?:(?!-->).)*-->"
LINES_OF_CHECKS = re.compile(rf"^[ ]*(?:{CHECK}[ ]*)+\n", re.DOTALL | re.MULTILINE)
CHECKS_IN_LINES = re.compile(rf"(?:(?<=\S)[ ]*{CHECK}|{CHECK}[ ]*)", re.DOTALL)


class ReleaseError(ValueError):
    """A student edition cannot be made, or would contain a solution."""


def adapted(path: str, content: bytes) -> bytes:
    """Return a file as the student edition has it. Raises `ReleaseError` if an edit no longer applies."""
    if path.endswith(".ipynb"):
        return student_notebook(content)
    text = content.decode() if path in EDITS or path.endswith(".md") else ""
    for old, new in EDITS.get(path, ()):
        if old not in text:
            raise ReleaseError(f"{path} no longer contains {old!r}: update EDITS in classroom/student_edition/texts.py")
        text = text.replace(old, new)
    if path in EDITS:
        text = CODE_WITH_SOLUTIONS.sub("", text)
    if path.endswith(".md"):
        text = WITH_SOLUTIONS.sub("", text)
        if "<!-- with solutions -->" in text or "<!-- end -->" in text:
            raise ReleaseError(f"{path} has a '<!-- with solutions -->' without '<!-- end -->', or the reverse")
        text = CHECKS_IN_LINES.sub("", LINES_OF_CHECKS.sub("", text))
        text = re.sub(r"(?:solutions/)?(phase\d+_[a-z_]+)\.py", r"labs/\1/starter.py", text)
    return text.encode() if text else content


def student_notebook(content: bytes) -> bytes:
    """Return a notebook without outputs, execution counts, cells tagged `with-solutions`, and launch links."""
    notebook = json.loads(ADDRESS.sub('REPOSITORY = \\\\"\\\\"', LAUNCH_LINKS.sub(r"\1\2", content.decode())))
    notebook["cells"] = [cell for cell in notebook["cells"] if WITH_SOLUTIONS_TAG not in tags_of(cell)]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def tags_of(cell: Mapping[str, Any]) -> list[str]:
    tags: list[str] = cell.get("metadata", {}).get("tags", [])
    return tags
