"""Writes the links for a published copy.

Run it as `python -m mini_vllm_labs.upkeep.launch_links https://github.com/OWNER/REPOSITORY`.

It adds badges to the README and to the top of each notebook, and adds the address to the notebooks' first code cell,
which clones from it in Colab. Run it again after the copy has moved. `--branch` is the branch that the links open.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT

ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")
START, END = "<!-- launch links -->", "<!-- end of launch links -->"
FIRST = "notebooks/00_tour.ipynb"
ASSIGNED = re.compile(r'REPOSITORY = "[^"]*"')


def badges(repository: str, branch: str, path: str) -> str:
    """Return the badges that open a notebook from `repository` ("OWNER/NAME")."""
    binder = f"https://mybinder.org/v2/gh/{repository}/{branch}?urlpath=lab/tree/{path}"
    colab = f"https://colab.research.google.com/github/{repository}/blob/{branch}/{path}"
    return (
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})\n"
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})"
    )


def with_badges(text: str, links: str) -> str:
    """Insert the links between the two markers in a text. Raises `ValueError` unless the pair of markers occurs exactly
    once."""
    place = re.compile(f"{START}.*?{END}", re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ValueError(f"the page must contain {START} and {END} exactly once")
    return place.sub(lambda _: f"{START}\n{links}\n{END}", text)


def with_address(notebook: str, address: str, links: str) -> str:
    """Insert the links into a notebook's first cell, and the address into its cell for Colab."""
    content = json.loads(notebook)
    title, colab, *_ = content["cells"]
    title["source"] = with_badges("".join(title["source"]), links).splitlines(keepends=True)
    code = ASSIGNED.sub(f'REPOSITORY = "{address}"', "".join(colab["source"]), count=1)
    colab["source"] = code.splitlines(keepends=True)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write(address: str, branch: str, checkout: Path = CHECKOUT) -> None:
    """Write the links into the files of a checkout. Raises `ValueError` for an address that is not on GitHub."""
    match = ADDRESS.fullmatch(address)
    if not match:
        raise ValueError(f"the address is {address!r}, but it must be https://github.com/OWNER/REPOSITORY")
    readme, repository = checkout / "README.md", match[1]
    readme.write_text(with_badges(readme.read_text("utf-8"), badges(repository, branch, FIRST)), "utf-8")
    for path in sorted(checkout.glob("notebooks/*.ipynb")):
        links = badges(repository, branch, f"notebooks/{path.name}")
        path.write_text(with_address(path.read_text("utf-8"), f"https://github.com/{repository}", links), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm_labs.upkeep.launch_links", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("address", help="https://github.com/OWNER/REPOSITORY")
    parser.add_argument("--branch", default="main")
    options = parser.parse_args()
    try:
        write(options.address, options.branch)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
