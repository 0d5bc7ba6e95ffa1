"""Three widgets: a film with a slider, knobs over a picture, and knobs over a film."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from course.views.film import Film
from course.views.knobs import Knob
from course.views.picture import Picture

if TYPE_CHECKING:
    from course.views.panels import BrowserDrawing, Filmed, FilmPanel, Panel
    from course.views.widgets import Player


def player(film: Film, step: int | None = None, speed: float = 1, scale: str = "steps") -> "Player":
    """Return the film as a widget, of which Python can set and watch `step`, `follow`, `speed` and `scale`.

    It begins at the film's first picture if no `step` is named. At speed 1 it can be read. On the scale `time` a step
    is as wide as its tokens.
    """
    from course.views.widgets import Player

    return Player(film, film.first if step is None else step, speed, scale=scale)


def panel(
    knobs: Sequence[Knob],
    draw: Callable[..., Picture],
    *,
    first_look: Callable[..., Picture | None] | None = None,
    reflows: bool = False,
    in_browser: "BrowserDrawing | None" = None,
) -> "Panel":
    """Return knobs over a picture. `draw` gets their values by name, and the `width` if the picture `reflows`.

    `first_look` is its faster version while a knob moves; it returns None where `draw` is as fast.
    """
    from course.views.panels import Panel

    return Panel(knobs, draw, first_look=first_look, reflows=reflows, in_browser=in_browser)


def film_panel(knobs: Sequence[Knob], run: Callable[..., "Filmed"], step: int = 0) -> "FilmPanel":
    """Return knobs over a player. `run` gets their values by name."""
    from course.views.panels import FilmPanel

    return FilmPanel(knobs, run, step)
