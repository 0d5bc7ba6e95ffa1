"""Makes setuptools build only editable installs of this folder, because learners edit its files.

A copy would also put packages named `labs` and `solutions` among those of other projects.
"""

from pathlib import Path
from typing import NoReturn

from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    prepare_metadata_for_build_editable,
)
from setuptools.dist import Distribution

__all__ = ["build_editable", "get_requires_for_build_editable", "prepare_metadata_for_build_editable"]

WHEEL = "`make wheel` there writes the package that learners install" * Path("mini_vllm_labs/classroom").is_dir()
REFUSED = (
    "mini-vllm-labs runs from its own folder, where you edit it, and is not installed as a copy. In a clone type: "
    "python lab.py demo   (makes .venv; in an environment of yours: pip install -c constraints.txt -e .)"
)

# setuptools 84 calls `has_data`, which no class defines: editable installs would lack the `data-files`, our kernel.
Distribution.has_data = Distribution.has_data_files


def refused(*_: object, **__: object) -> NoReturn:
    """Exit with the right command before pip downloads anything for a copy."""
    raise SystemExit("\n".join(filter(None, [REFUSED, WHEEL])))


get_requires_for_build_wheel = prepare_metadata_for_build_wheel = build_wheel = refused
get_requires_for_build_sdist = build_sdist = refused
