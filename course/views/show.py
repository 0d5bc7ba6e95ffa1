"""Two widgets: a film with a slider, and knobs over a picture."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from course.views.film import Film
from course.views.knobs import Knob
from course.views.picture import Picture

if TYPE_CHECKING:
    from course.views.widgets import Panel, Player


def player(film: Film, step: int = 0, speed: float = 1) -> "Player":
    """Return the film as a widget, of which Python can set and watch `step`, `follow` and `speed` (1: to be read)."""
    from course.views.widgets import Player

    return Player(film, step, speed)


def panel(knobs: Sequence[Knob], draw: Callable[..., Picture]) -> "Panel":
    """Return knobs over a picture. `draw` gets their values by name."""
    from course.views.widgets import Panel

    return Panel(knobs, draw)
