"""The import contracts are the only authoritative list of packages. Other lists and editions agree with it."""

from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.packages import COURSE, all_packages, folder_of, in_a_browser, settings, top_level
from mini_vllm_labs.classroom.student_edition.edition import compose, is_shared
from mini_vllm_labs.upkeep.site.downloads import belongs

SETTINGS = settings(CHECKOUT)
PACKAGES = {COURSE, *all_packages()}


def packages_in(folder: Path) -> set[str]:
    """Return the packages in a folder, as paths in the checkout."""
    found = (path.parent.relative_to(CHECKOUT).as_posix() for path in folder.glob("*/__init__.py"))
    return {path.replace("/", ".") for path in found}


@pytest.mark.parametrize("folder", [CHECKOUT, CHECKOUT / COURSE], ids=["top level", COURSE])
def test_the_contracts_name_every_package_there_is(folder: Path) -> None:
    depth = len(folder.relative_to(CHECKOUT).parts)
    assert {name for name in PACKAGES if name.count(".") == depth} == packages_in(folder)


def test_what_must_repeat_the_list_agrees_with_it() -> None:
    assert set(SETTINGS["mypy"]["packages"]) == set(top_level())
    installed = {name.rstrip("*") for name in SETTINGS["setuptools"]["packages"]["find"]["include"]}
    assert installed | {COURSE, "tests"} == set(top_level()), "`mini_vllm*` means `mini_vllm_labs` too"


def test_an_edition_and_the_browsers_lab_have_their_packages_and_no_others() -> None:
    browser = {path for path in compose() if belongs(path) and path != "pyproject.toml" and not is_shared(path)}
    for name in PACKAGES - {COURSE}:
        assert any(path.startswith(folder_of(name)) for path in browser) == (name in in_a_browser()), name


@pytest.mark.parametrize("group", SETTINGS["mini-vllm-labs"])
def test_only_packages_that_exist_are_left_out(group: str) -> None:
    assert set(SETTINGS["mini-vllm-labs"][group]) <= PACKAGES
