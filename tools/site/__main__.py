"""`python -m tools.site [FOLDER]`: build the website into `build/site`. `make site` calls it."""

import argparse
import sys
from pathlib import Path

from classroom.student_edition.edition import compose
from classroom.student_edition.texts import ReleaseError
from mini_vllm.assembly.lineup import CHECKOUT
from tools.site.assemble import assemble
from tools.site.downloads import DownloadError, Downloads
from tools.site.website.build import WebsiteError

BUILD = CHECKOUT / "build"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "site", help="what is there is replaced")
    parser.add_argument("--cache", type=Path, default=BUILD / "site-cache", help="keeps what was downloaded")
    options = parser.parse_args()
    try:
        assemble(compose(), Downloads(options.cache.resolve()), options.folder.resolve())
    except (ReleaseError, DownloadError, WebsiteError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
