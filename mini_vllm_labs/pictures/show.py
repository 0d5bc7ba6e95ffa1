"""Shows a film as a widget. `Panel` and `FilmPanel` are in `panels`, because all widgets need anywidget."""

from typing import TYPE_CHECKING

from mini_vllm_labs.pictures.film import Film

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player


def player(film: Film, step: int | None = None, speed: float = 1, scale: str = "steps") -> "Player":
    """Return the film as a widget whose `step`, `follow`, `speed` and `scale` Python can set and watch.

    Without `step`, the widget opens at the film's `first` picture. Speed 1 is slow enough to read along. On the scale
    `time`, a step's width is proportional to its tokens.
    """
    from mini_vllm_labs.pictures.widgets import Player

    return Player(film, film.first if step is None else step, speed, scale=scale)
