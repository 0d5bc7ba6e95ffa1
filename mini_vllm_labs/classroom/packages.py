"""Reads the course's packages from `pyproject.toml`, whose import contracts list them from the top layer down.

`[tool.mini-vllm-labs]` lists the packages that learners and browsers do not get.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from mini_vllm.assembly.lineup import CHECKOUT

COURSE = "mini_vllm_labs"


def top_level(checkout: Path = CHECKOUT) -> tuple[str, ...]:
    """Return the packages at the top of a checkout."""
    return tuple(settings(checkout)["importlinter"]["root_packages"])


def all_packages(checkout: Path = CHECKOUT) -> tuple[str, ...]:
    """Return every package: those at the top level, and the parts of the course, such as `mini_vllm_labs.cli`."""
    (order,) = (one for one in settings(checkout)["importlinter"]["contracts"] if one.get("id") == "layers")
    layers = [name.strip() for layer in order["layers"] for name in layer.split(":")]
    return (*(name for name in top_level(checkout) if name != COURSE and name not in layers), *layers)


def for_learners(checkout: Path = CHECKOUT) -> tuple[str, ...]:
    """Return the packages of a student edition."""
    return without("teachers-only", all_packages(checkout), checkout)


def in_a_browser(checkout: Path = CHECKOUT) -> tuple[str, ...]:
    """Return the packages of the lab that runs in a browser tab."""
    return without("local-only", for_learners(checkout), checkout)


def without(group: str, packages: tuple[str, ...], checkout: Path) -> tuple[str, ...]:
    left_out: list[str] = settings(checkout)["mini-vllm-labs"][group]
    return tuple(name for name in packages if name not in left_out)


def folder_of(package: str) -> str:
    """Return a package's path in a checkout, with a slash at the end."""
    return package.replace(".", "/") + "/"


@cache
def settings(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return found
