"""The widget of a film. `Panel` and `FilmPanel` are in `panels`, which needs anywidget, as the widgets do."""

from typing import TYPE_CHECKING

from mini_vllm_labs.pictures.film import Film

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.widgets import Player


def player(film: Film, step: int | None = None, speed: float = 1, scale: str = "steps") -> "Player":
    """Return the film as a widget whose `step`, `follow`, `speed` and `scale` Python can set and watch.

    It begins at the film's first picture if no `step` is named. Speed 1 leaves time to read. On the scale `time` a step
    is as wide as its tokens.
    """
    from mini_vllm_labs.pictures.widgets import Player

    return Player(film, film.first if step is None else step, speed, scale=scale)
