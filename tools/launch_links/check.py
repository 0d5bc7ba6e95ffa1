"""`python -m tools.launch_links.check`: does what the Binder and Colab links of this copy lead to still start?

Both services answer a link with a page, whatever is behind it. So Binder is asked to build, and the notebook that Colab
would open is read from GitHub.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from typing import IO
from urllib.request import urlopen

from mini_vllm.assembly.lineup import CHECKOUT

BINDER = re.compile(r"\(https://mybinder\.org/v2/(gh/[\w.-]+/[\w.-]+/[^?)\s]+)\?urlpath=lab/tree/([^)\s]+)\)")
COLAB = re.compile(r"\(https://colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)/blob/([^)\s]+)\)")
SECONDS = 600  # between two messages of Binder's
Open = Callable[[str], IO[bytes]]


def problems(texts: Iterable[str], get: Open) -> list[str]:
    """Return what is wrong with the links in texts, in words."""
    text = "\n".join(texts)
    binder, colab = BINDER.findall(text), COLAB.findall(text)
    files = {f"{build.removeprefix('gh/')}/{path}" for build, path in binder} | {"/".join(link) for link in colab}
    builds = {build for build, _ in binder}
    return [
        *(problem for file in sorted(files) for problem in read(file, get)),
        *(problem for build in sorted(builds) for problem in built(build, get)),
    ]


def read(file: str, get: Open) -> list[str]:
    """Return what is wrong with a notebook on GitHub, as `OWNER/NAME/BRANCH/PATH`."""
    try:
        with get(f"https://raw.githubusercontent.com/{file}") as answer:
            json.load(answer)["cells"]
    except (OSError, ValueError, KeyError) as error:
        return [f"{file} is no notebook that can be read: {error}"]
    return []


def built(build: str, get: Open) -> list[str]:
    """Return what is wrong with Binder's build, as `gh/OWNER/NAME/BRANCH`: it sends lines until it is ready."""
    last = "no answer"
    try:
        with get(f"https://mybinder.org/build/{build}") as lines:
            for line in lines:
                if line.startswith(b"data:"):
                    message = json.loads(line.removeprefix(b"data:"))
                    last = message.get("message", last).strip() or last
                    if message.get("phase") == "ready":
                        return []
                    if message.get("phase") == "failed":
                        break
    except (OSError, ValueError) as error:
        last = str(error)
    return [f"{build} does not start: {last}"]


def main() -> None:
    files = [CHECKOUT / "README.md", *sorted(CHECKOUT.glob("notebooks/*.ipynb"))]
    texts = [path.read_text("utf-8") for path in files]
    if not any(BINDER.search(text) or COLAB.search(text) for text in texts):
        print("No links here: `python -m tools.launch_links https://github.com/OWNER/REPOSITORY` writes them.")
    sys.exit("\n".join(problems(texts, lambda address: urlopen(address, timeout=SECONDS))) or 0)


if __name__ == "__main__":
    main()
