"""The three ways to show a film: a picture, HTML with a slider, a widget. And one to show knobs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from course.views.film import Film
from course.views.knobs import Knob
from course.views.picture import Picture
from course.views.slider import Slider

if TYPE_CHECKING:
    from course.views.widgets import Panel, Player


def static(film: Film, step: int = 0) -> Picture:
    """Return one step as a picture. It needs no kernel and no script."""
    return film[step]


def slider(film: Film, step: int = 0, speed: float = 4) -> Slider:
    """Return the film as one piece of HTML, which still moves in an exported page. `speed` in steps per second."""
    return Slider(film, step, speed)


def player(film: Film, step: int = 0, speed: float = 4) -> "Player":
    """Return the film as a widget: Python can set and watch `step` and `follow`. `speed` in steps per second."""
    from course.views.widgets import Player

    return Player(film, step, speed)


def panel(knobs: Sequence[Knob], draw: Callable[..., Picture]) -> "Panel":
    """Return knobs over the picture that `draw` makes of their values, which it gets by name."""
    from course.views.widgets import Panel

    return Panel(knobs, draw)
