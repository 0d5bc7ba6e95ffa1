"""Builds the learners' wheel from a checkout, or an editable install, which runs the code from the checkout itself.

A plain copy would put packages named `labs` and `solutions` alongside those of other projects.
"""

import sys
from pathlib import Path
from typing import NoReturn

from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)
from setuptools.dist import Distribution

__all__ = ["build_editable", "get_requires_for_build_editable", "prepare_metadata_for_build_editable"]

ROOT = Path(__file__).parents[3]
IS_CHECKOUT = (ROOT / "mini_vllm_labs" / "classroom").is_dir()
SETUP = "" if (ROOT / "lab.py").is_file() else ".setup/"
EDITED_HERE = (
    "To run the course from its own folder, where you edit it, type there: "
    f"python {SETUP}lab.py demo   (makes .venv; in an environment of yours: pip install -c {SETUP}constraints.txt -e .)"
)

# setuptools 84 calls `has_data`, which no class defines: without this, editable installs would lack the `data-files`,
# our kernel.
Distribution.has_data = Distribution.has_data_files


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Return no requirements, because nothing must be installed first.

    Exits in a student edition, before pip downloads anything to install a copy.
    """
    if not IS_CHECKOUT:
        raise SystemExit(f"A student edition cannot be installed as a copy. {EDITED_HERE}")
    return []


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """Build the learners' wheel and return its name. Exits with the reason if the wheel would contain a solution."""
    get_requires_for_build_wheel()
    sys.path.insert(0, str(ROOT))
    from mini_vllm_labs.classroom.student_edition.edition import compose, require_tracked_code
    from mini_vllm_labs.classroom.student_edition.texts import ReleaseError
    from mini_vllm_labs.classroom.student_edition.wheel import build

    try:
        require_tracked_code(ROOT)
        return build(compose(ROOT), Path(wheel_directory)).name
    except ReleaseError as error:
        raise SystemExit(f"{error}\n{EDITED_HERE}") from None


def get_requires_for_build_sdist(config_settings: object = None) -> NoReturn:
    """Exit, because an archive of the sources would contain the solutions."""
    raise SystemExit(f"The course has no source distribution: build a wheel with `pip wheel --no-deps .` {EDITED_HERE}")


build_sdist = get_requires_for_build_sdist
