"""Public class names are unique: the same name never means different things in different modules."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_two_public_classes_share_a_name() -> None:
    files = [path for package in ("mini_vllm", "mini_vllm_labs") for path in (ROOT / package).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    assert len(names) > 500, "the search finds nothing any more"
    assert {name for name, count in names.items() if count > 1} == set()
