"""`python -m tools.pictures` writes `docs/pictures/`; with names (`demo`, `screens`), only these."""

import sys
from collections.abc import Callable

from course.views.block_life import block_life
from course.views.picture import Picture
from course.views.time_machine import time_machine
from mini_vllm.assembly.lineup import CHECKOUT
from tools.pictures import views
from tools.pictures.moving import moving_pictures
from tools.pictures.screens import screens
from tools.pictures.serving import serving_screens
from tools.pictures.terminal import demo

PICTURES = CHECKOUT / "docs" / "pictures"
VIEWS: dict[str, Callable[[], Picture]] = {
    "time_machine": lambda: views.at_preemption(time_machine),
    "block_life": lambda: views.at_preemption(block_life),
    "hash_chain": views.three_chains,
    "paged_batch": views.paged_decode,
    "chunking_dial": views.smaller_budget,
    "calculator": views.capacity,
    "policy_comparison": views.policies,
    "drafts": views.kept_and_rejected_drafts,
    "lanes": views.in_turn_and_ahead,
}
NAMES = ("demo", *VIEWS, "screens", "serving", "film")


def files(name: str) -> dict[str, bytes]:
    """Return the files of a picture, by their names."""
    if name == "demo":
        return {"demo.svg": demo().encode()}
    if name in ("screens", "serving"):
        return {f"{screen}.png": png for screen, png in (screens if name == "screens" else serving_screens)().items()}
    if name == "film":
        return moving_pictures()
    return {f"{name}.svg": f"{VIEWS[name]().svg()}\n".encode()}


def main(names: list[str]) -> None:
    """Make the pictures that are named, or all. The screens and the film need Chromium."""
    if unknown := set(names) - set(NAMES):
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        for file, content in files(name).items():
            (PICTURES / file).write_bytes(content)
            print(f"docs/pictures/{file}")


if __name__ == "__main__":
    main(sys.argv[1:])
