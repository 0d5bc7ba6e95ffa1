"""`python -m mini_vllm_labs.upkeep.tested_packages` prints the packages that the wheel's `tested` extra pins.

They are the packages that a learner needs on every platform, directly or indirectly. The list is stored in a file,
because a wheel is built in an environment with only setuptools, which cannot read packages' requirements.
"""

import tomllib
from collections.abc import Iterable, Set
from importlib import metadata

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.wheel import TESTED, needed_by_learners

PLATFORMS = tuple(
    {"sys_platform": name, "platform_system": system, "os_name": kind}
    for name, system, kind in (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
)


def tested(needed: Iterable[str], pins: Iterable[str]) -> list[str]:
    """Return the pinned packages that every platform needs.

    Raises `importlib.metadata.PackageNotFoundError` if a package is not installed, because its requirements are then
    unknown.
    """
    pinned = {canonicalize_name(name): name for name in (pin.partition("==")[0] for pin in pins)}
    found, left = set[tuple[NormalizedName, frozenset[str]]](), [Requirement(text) for text in needed]
    while left:
        each = left.pop()
        if (key := (canonicalize_name(each.name), frozenset(each.extras))) in found:
            continue
        found.add(key)
        children = [Requirement(text) for text in metadata.requires(each.name) or ()]
        left += [child for child in children if is_for_all(child.marker, {"", *each.extras})]
    return sorted(pinned[name] for name in {name for name, _ in found} & pinned.keys())


def is_for_all(marker: Marker | None, extras: Set[str]) -> bool:
    """Return whether a marker is true on every platform with at least one of the extras."""
    return marker is None or all(
        any(marker.evaluate({**platform, "extra": extra}) for extra in extras) for platform in PLATFORMS
    )


def list_now() -> str:
    """Return the list for this checkout and the packages installed here."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").split()
    return "\n".join(tested(needed_by_learners(project), pins)) + "\n"


if __name__ == "__main__":
    TESTED.write_text(list_now(), encoding="utf-8")
