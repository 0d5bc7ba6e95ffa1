"""Writes a film as a single HTML page that needs no network or kernel and can be embedded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from string import Template

from mini_vllm_labs.pictures.alone import alone
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.picture import read_asset


@dataclass(frozen=True)
class Page:
    """A page's texts: title, code owner, description of the run, text alternative, and answers keyed by question."""

    title: str
    whose: str
    about: str
    twin: str
    texts: Mapping[str, str] = field(default_factory=dict)

    def html(self, film: Film, first: int = 0) -> str:
        """Return the page. Without scripts, the page shows the picture of step `first` and the text."""
        state = {"film": film.encode(), "step": first, "follow": "", "speed": 1.0, "scale": "steps", "place": ""}
        answers = "".join(f"<dt>{escape(asked)}</dt><dd>{escape(said)}</dd>" for asked, said in self.texts.items())
        words = {name: escape(value) for name, value in vars(self).items() if isinstance(value, str)}
        film_html = film.still(first).html() + alone(state)
        return Template(read_asset("page.html")).substitute(
            words, film=film_html, texts=f"<dl>{answers}</dl>" if answers else ""
        )
