"""Writes the website's pages: adapts texts for MkDocs in a temporary folder, then runs MkDocs."""

import codecs
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES
from mini_vllm.installation import install_command
from mini_vllm_labs.classroom.student_edition.texts import CHECKS_IN_LINES, LINES_OF_CHECKS
from mini_vllm_labs.runs.palette import OKABE_ITO
from mini_vllm_labs.upkeep.site.website.gallery import FILMS, gallery_page, one_file_page, played
from mini_vllm_labs.upkeep.site.website.texts import hints_in, lab, page_text, up, with_hints

HERE = Path(__file__).parent
# Not meant for learners, so the student edition omits these pages.
ELECTIVES = ("README", "tokens_ahead", "structured_output", "kv_transfer", "gates", "windows", "policies")
DOCUMENTS = (
    *(
        "docs/README.md",
        "docs/topics.md",
        "docs/benchmarks.md",
        "docs/teaching.md",
        "docs/serving.md",
        "docs/contributing.md",
        "CONTRIBUTING.md",
    ),
    *(f"docs/electives/{name}.md" for name in ELECTIVES),
)
SET_UP = "## Set up\n"
STEP_BEFORE_PREEMPTION = 5
CHAT = (
    '<iframe class="chat" src="chat/index.html" title="The engine at work in this page: type a sentence, and see its '
    'blocks move" loading="lazy"></iframe>'
)


class WebsiteError(ValueError):
    """The pages cannot be built, because something is missing or a link is broken."""


def write_website(edition: Mapping[str, bytes], site: Path) -> None:
    """Write the pages into the site, next to the folders `lab` and `chat` if these have been built.

    Raises `WebsiteError` if MkDocs is missing, or with MkDocs' error message if it rejects a text.
    """
    if importlib.util.find_spec("material") is None:
        raise WebsiteError(f"MkDocs is missing: {install_command('site')}")
    with TemporaryDirectory() as work:
        write_sources(edition, Path(work), has_chat=(site / "chat/index.html").is_file())
        command = [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--config-file",
            f"{work}/mkdocs.yml",
        ]
        done = subprocess.run([*command, "--site-dir", f"{work}/built"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise WebsiteError(f"MkDocs could not build the pages:\n{done.stdout}{done.stderr}")
        for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):  # these files need the site's address
            Path(work, "built", name).unlink(missing_ok=True)
        shutil.copytree(Path(work, "built"), site, dirs_exist_ok=True)


def write_sources(edition: Mapping[str, bytes], work: Path, *, has_chat: bool) -> None:
    """Write MkDocs' configuration, theme and texts into a folder."""
    shutil.copytree(HERE / "theme", work / "theme")
    shutil.copytree(HERE / "pages", work / "pages")
    config = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    (work / "mkdocs.yml").write_text(config.replace("PAGES", "pages"), encoding="utf-8")
    for path, text in texts(edition, has_chat=has_chat).items():
        target = work / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(CHECKOUT / "docs/pictures", work / "pages/docs/pictures")
    colours = "".join(f"--request-{number}:{colour};" for number, (colour, _) in enumerate(OKABE_ITO))
    (work / "pages/palette.css").write_text(f":root{{{colours}}}\n", encoding="utf-8")


def texts(edition: Mapping[str, bytes], *, has_chat: bool) -> dict[str, str]:
    """Return the texts of all pages, keyed by path."""
    found = {path: edition[path].decode() for path in edition if re.fullmatch(r"labs/(?:\w+/)?README\.md", path)}
    for path, text in found.items():
        hints = edition.get(f"{path.removesuffix('README.md')}hints.rot13", b"").decode()
        found[path] = with_hints(text, hints_in(codecs.decode(hints, "rot13")))
    found["docs/architecture.md"] = edition["docs/architecture.md"].decode()
    for path in DOCUMENTS:
        text = (CHECKOUT / path).read_text(encoding="utf-8")
        found[path] = CHECKS_IN_LINES.sub("", LINES_OF_CHECKS.sub("", text))
    found["install.md"] = "# Install it\n" + edition["README.md"].decode().split(SET_UP, 1)[1]
    found["one-file.md"] = one_file_page()
    pages = {*found, "index.md", "gallery.md"}
    found = {path: page_text(text, path, pages) for path, text in found.items()}
    found["gallery.md"] = gallery(edition)
    found["index.md"] = landing(edition, has_chat=has_chat)
    return found


def gallery(edition: Mapping[str, bytes]) -> str:
    """Return the gallery as Markdown; its pictures take their text alternatives from the documents."""
    written = "".join(edition[path].decode() for path in edition if path.endswith(".md"))
    written += (CHECKOUT / "docs" / "using.md").read_text(encoding="utf-8")

    def picture(name: re.Match[str]) -> str:
        found = re.search(rf"!\[([^\]]+)\]\([^)]*{name[1]}\.svg\)", written)
        return f"![{found[1] if found else name[1]}](docs/pictures/{name[1]}.svg)"

    page = gallery_page(lambda notebook: f"{up('gallery.md')}{lab(f'notebooks/{notebook}.ipynb')}")
    return re.sub(r"^ALT:(\w+)$", picture, page, flags=re.MULTILINE)


def landing(edition: Mapping[str, bytes], *, has_chat: bool) -> str:
    title = next(iter(FILMS))
    shown = CHAT if has_chat else played(title, FILMS[title][1](), STEP_BEFORE_PREEMPTION)
    rows = re.findall(r"^\| (\d) ([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", edition["README.md"].decode(), re.MULTILINE)
    cards = [
        f"- [**{number}** {name}](labs/phase{number}_{name.lower().replace(' ', '_')}/README.md)\n\n    {write}\n"
        for number, name, write, _ in rows[: len(PHASE_NAMES)]
    ]
    text = (HERE / "pages/index.md").read_text(encoding="utf-8")
    phases = '<div class="phases" markdown="1">\n\n' + "\n".join(cards) + "\n</div>"
    return text.replace("LIVE", shown).replace("PHASES", phases).replace("(LAB)", f"({lab('notebooks/00_tour.ipynb')})")
