"""`python -m mini_vllm_labs.upkeep.pictures` writes all pictures to `docs/pictures/`, or only the named ones (`demo`,
`screens`)."""

import sys

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.upkeep.pictures.animated_gif import moving_pictures
from mini_vllm_labs.upkeep.pictures.screens import demo, screens, serving_screens
from mini_vllm_labs.upkeep.pictures.terminal_film import filmed
from mini_vllm_labs.upkeep.pictures.views import VIEWS

PICTURES = CHECKOUT / "docs" / "pictures"
NAMES = ("demo", *VIEWS, "screens", "serving", "film", "inside_vllm")
INSIDE_VLLM = ("inside-vllm", "--lineup", "solution:1-5,solution:7")


def files(name: str) -> dict[str, bytes]:
    if name == "demo":
        return {"demo.svg": demo().encode()}
    if name in ("screens", "serving"):
        return {f"{screen}.png": png for screen, png in (screens if name == "screens" else serving_screens)().items()}
    if name == "film":
        return moving_pictures()
    if name == "inside_vllm":
        return {"inside_vllm.svg": filmed(INSIDE_VLLM).encode()}
    return {f"{name}.svg": f"{VIEWS[name]().svg()}\n".encode()}


def main(names: list[str]) -> None:
    """Make the named pictures, or all of them.

    The screens and the film need Chromium, and `inside_vllm` needs its environment.
    """
    if unknown := set(names) - set(NAMES):
        sys.exit(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        for file, content in files(name).items():
            (PICTURES / file).write_bytes(content)
            print(f"docs/pictures/{file}")


if __name__ == "__main__":
    main(sys.argv[1:])
