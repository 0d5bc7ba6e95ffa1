"""`python -m mini_vllm_labs.upkeep.site [FOLDER]` builds the website into `build/site`. `make site` runs this
command."""

import argparse
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import compose
from mini_vllm_labs.classroom.student_edition.texts import ReleaseError
from mini_vllm_labs.upkeep.site.chat.build import write_chat
from mini_vllm_labs.upkeep.site.downloads import DownloadError, Downloads, write_course_wheel
from mini_vllm_labs.upkeep.site.lab import write_lab, write_pyodide_folder
from mini_vllm_labs.upkeep.site.website.build import WebsiteError, write_website

BUILD = CHECKOUT / "build"


def assemble(edition: Mapping[str, bytes], downloads: Downloads, site: Path) -> None:
    """Write the site for a student edition (a mapping from path to content).

    Raises `DownloadError` if a part is unavailable.
    """
    work = site.with_name(f"{site.name}.unfinished")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    course = write_course_wheel(edition, downloads.cache)
    wheels = [*downloads.kernel_wheels(), *downloads.wheels(), course]
    write_pyodide_folder(downloads.pyodide(), work / "pyodide", wheels)
    write_chat(edition, downloads.pyodide(), work / "chat")
    write_lab(edition, downloads, work / "lab")
    write_website(edition, work)  # written last, because its first page lists the parts that already exist
    shutil.rmtree(site, ignore_errors=True)
    work.rename(site)
    files = [path for path in site.rglob("*") if path.is_file()]
    print(f"{site}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm_labs.upkeep.site", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "site", help="what is there is replaced")
    parser.add_argument("--cache", type=Path, default=BUILD / "site-cache", help="keeps what was downloaded")
    options = parser.parse_args()
    if options.folder.is_file():
        sys.exit(f"error: {options.folder} is a file: name a folder")
    try:
        assemble(compose(), Downloads(options.cache.resolve()), options.folder.resolve())
    except (OSError, ReleaseError, DownloadError, WebsiteError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
