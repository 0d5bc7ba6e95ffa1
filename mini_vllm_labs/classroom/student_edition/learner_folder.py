"""Arranges the student edition as `mini-vllm start` writes it: with few visible entries, including a README to start
with.

Everyone who has such a folder has installed the course with pip. The files for installing the course elsewhere, such as
in the workflow that grades every push, are in `.setup/`.
"""

import re
from collections.abc import Mapping

MOVED = {"lab.py": ".setup/lab.py", "constraints.txt": ".setup/constraints.txt", "LICENSE": "docs/LICENSE"}
LEFT_OUT = ("Makefile", "environment.yml", "postBuild")
IN_A_REPOSITORY = re.compile(r"<!-- in a repository -->\n.*?<!-- end -->\n", re.DOTALL)


def arranged(edition: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the learner's folder as a mapping from path to content, made from the edition's files."""
    kept = {path: content for path, content in edition.items() if path not in LEFT_OUT}
    return {MOVED.get(path, path): adapted(path, content) for path, content in kept.items()}


def adapted(path: str, content: bytes) -> bytes:
    """Return a text without the parts meant only for a repository, and with the files' new locations."""
    if not path.endswith((".md", ".yml")):
        return content
    text = IN_A_REPOSITORY.sub("", content.decode())
    text = re.sub(r"(-c|path:) constraints\.txt", r"\1 .setup/constraints.txt", text)
    return text.replace("import lab;", "import sys; sys.path.append('.setup'); import lab;").encode()
