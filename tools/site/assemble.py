"""Put the parts of the website into one folder; an unfinished build leaves the site of the last one as it was."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.site.chat.build import write_chat
from tools.site.course_wheel import write_course_wheel
from tools.site.downloads import Downloads
from tools.site.lab import write_lab, write_pyodide_folder
from tools.site.website.build import write_website


def assemble(edition: Mapping[str, bytes], downloads: Downloads, site: Path) -> None:
    """Write the site of a student edition (path to content). Raises `DownloadError` if a part cannot be had."""
    work = site.with_name(f"{site.name}.unfinished")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    course = write_course_wheel(edition, downloads.cache)
    wheels = [*downloads.kernel_wheels(), *downloads.wheels(), course]
    write_pyodide_folder(downloads.pyodide(), work / "pyodide", wheels)
    write_chat(edition, downloads.pyodide(), work / "chat")
    write_lab(edition, downloads, work / "lab")
    write_website(edition, work)  # last: its first page shows what is there
    shutil.rmtree(site, ignore_errors=True)
    work.rename(site)
    files = [path for path in site.rglob("*") if path.is_file()]
    print(f"{site}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
