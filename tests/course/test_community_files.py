"""The documents for newcomers (workflow, forms, hooks, root documents) name commands and paths that exist."""

import re
import shlex
import sys
import tomllib
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.edition.released_text import read

ROOT = Path(__file__).parents[2]
YAML_FILES = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"])
ROOT_DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/commands.md", "docs/contributing.md"),
    *("docs/installing.md", "docs/teaching.md", "docs/using.md"),
)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def project() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return settings


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_every_yaml_file_is_a_mapping(path: Path) -> None:
    assert isinstance(loaded(path), dict)


def test_the_workflow_runs_the_readmes_commands_on_every_system_and_python() -> None:
    jobs = loaded(ROOT / ".github/workflows/ci.yml")["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert matrix["python"][0] == project()["requires-python"].removeprefix(">=")
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    lab = (ROOT / "lab.py").read_text(encoding="utf-8")
    commands = [step["run"].split() for job in jobs.values() for step in job["steps"] if "run" in step]
    assert [".ci/run"] in commands
    commands.remove([".ci/run"])
    assert [words[:2] for words in commands] == [["python", "lab.py"]] * 3
    assert all(f'"{words[2]}": [' in lab for words in commands)


def test_ci_run_calls_what_make_has() -> None:
    targets = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    called = re.findall(r"^make ([a-z-]+)", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
    assert called == ["demo", "lint", "test-all"]
    assert set(called) <= set(" ".join(targets).split())


def test_hooks_run_on_any_system_what_lint_runs() -> None:
    (repo,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [shlex.split(hook["entry"]) for hook in repo["hooks"] if hook["language"] == "system"]
    assert [words[:3] for words in entries if words[0] == "python"] == [
        ["python", "-m", "ruff"], ["python", "-m", "ruff"], ["python", "-m", "mypy"]
    ]  # fmt: skip
    assert entries[-1] == ["lint-imports"]
    assert not any("bin/" in word or "\\" in word for words in entries for word in words), "a path of one system"


@pytest.mark.parametrize(
    ("message", "is_refused"),
    [
        ("é" * 72 + "\n\n" + "The body may have longer lines. " * 9, False),  # a two-byte character counts once
        ("é" * 73, True),
        ("x" * 73 + "\n\nThe body says why.", True),
    ],
    ids=["72 and a body", "73", "73 and a body"],
)
def test_git_refuses_a_subject_of_more_than_72_characters(message: str, is_refused: bool, tmp_path: Path) -> None:
    config = loaded(ROOT / ".pre-commit-config.yaml")
    assert config["default_install_hook_types"] == ["pre-commit", "commit-msg"]
    (hook,) = [hook for hook in config["repos"][0]["hooks"] if hook.get("stages") == ["commit-msg"]]
    (tmp_path / "COMMIT_EDITMSG").write_text(message, encoding="utf-8")
    pygrep = [sys.executable, "-m", f"pre_commit.languages.{hook['language']}", *hook["args"], hook["entry"]]
    assert run([*pygrep, str(tmp_path / "COMMIT_EDITMSG")], capture_output=True, check=False).returncode == is_refused


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml")), ids=lambda path: path.stem)
def test_issue_forms_have_what_github_requires(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 0


def test_the_citation_is_of_this_version() -> None:
    citation = loaded(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (project()["version"], project()["license"])


@pytest.mark.parametrize("name", ROOT_DOCUMENTS)
def test_paths_and_links_of_root_documents_exist(name: str) -> None:
    document = read(ROOT, ROOT / name, (ROOT / name).read_text(encoding="utf-8"))
    for link in document.links:
        target, _, anchor = link.partition("#")
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link
    for code in document.inline_code:
        for path in re.findall(r"(?<!\w)(?:labs|mini_vllm|mini_vllm_labs|docs|notebooks|tests)/[\w./*-]+", code):
            pattern = path.replace("phaseN", "phase?").rstrip("/.")
            assert list(ROOT.glob(pattern)), f"{name}: {path}"


def anchors(path: Path) -> set[str]:
    tokens = MarkdownIt().parse(path.read_text(encoding="utf-8"))
    titles = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
