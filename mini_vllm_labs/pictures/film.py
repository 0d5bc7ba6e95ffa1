"""A sequence of pictures of one shape, encoded so that unchanged layers are stored once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from mini_vllm_labs.pictures.picture import WIDTH, Picture, html
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.runs.traces.run_state import RunInfo


@dataclass(frozen=True)
class Film:
    """Pictures with the same layers in the same places, one per step; `also` has those for pages of other widths.

    `follow` lists what the reader can follow, as (key, name): the key is `request:0` for the elements with
    `data-request="0"`, `block:17` for `data-block="17"`. `events` are the words for what happens in each picture,
    such as `("preemption",)`, at which play can stop. With `has_time` the pictures can be shown on the scale `time`
    too. `word` is what a picture is: a step, or a row of a batch. `first` is the one that a player shows first. `lines`
    are the lines of code that decided it, as `Lines.encode` returns them.
    Raises `ValueError` if the pictures differ in shape, or if there is not one list of events for each.
    """

    pictures: Sequence[Picture]
    also: Sequence[Sequence[Picture]] = ()
    follow: Sequence[tuple[str, str]] = ()
    events: Sequence[Sequence[str]] = ()
    has_time: bool = False
    word: str = "step"
    first: int = 0
    lines: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, drawn: Mapping[Any, Sequence[Picture]], follow: Sequence[tuple[str, str]] = (), **shown: Any) -> Self:
        """Return the film of the pictures by the width in px that each is drawn for."""
        also = [pictures for width, pictures in drawn.items() if width != WIDTH]
        return cls(drawn[WIDTH], also, follow, **shown)

    def __post_init__(self) -> None:
        if not self.pictures:
            raise ValueError("a film needs at least one picture: the trace has no steps")
        for pictures in (self.pictures, *self.also):
            first = shape(pictures[0])
            for number, picture in enumerate(pictures):
                if shape(picture) != first:
                    raise ValueError(f"picture {number} differs from picture 0 in its size, its layers or their places")
        if self.events and len(self.events) != len(self.pictures):
            raise ValueError(f"there are {len(self.pictures)} pictures, but {len(self.events)} lists of events")

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, step: int) -> Picture:
        """Return one picture. Raises `ValueError` for a step outside the film."""
        if not 0 <= step < len(self.pictures):
            raise ValueError(f"step is {step}, but there are steps 0 to {len(self.pictures) - 1}")
        return self.pictures[step]

    def still(self, step: int) -> Picture:
        """Return one picture for a page of any width. Raises `ValueError` for a step outside the film."""
        first = self[step]
        narrow = min((pictures[step] for pictures in self.also), key=lambda picture: picture.width, default=None)
        return replace(first, narrow=narrow)

    def changed(self, change: Callable[[Picture], Picture]) -> "Film":
        also = [list(map(change, pictures)) for pictures in self.also]
        return replace(self, pictures=list(map(change, self.pictures)), also=also)

    def encode(self) -> dict[str, Any]:
        """Return the film for the player.

        `fragments` are the distinct contents of layers and text alternatives. The `stop` of a frame names the events at
        which play can stop. For each width there is a view: `svg` has its empty layers, and `changes` has for each step
        a flat list of the layer number and fragment number of each layer that changed.
        """
        events = self.events or [()] * len(self.pictures)
        numbers: dict[str, int] = {}
        views = sorted((self.pictures, *self.also), key=lambda pictures: pictures[0].width)
        return {
            "views": [view_of(pictures, numbers) for pictures in views],
            "frames": [
                {
                    "title": picture.title,
                    "sentence": picture.sentence,
                    "text_alternative": numbers.setdefault(picture.text_alternative, len(numbers)),
                    "stop": ", ".join(happened),
                }
                for picture, happened in zip(self.pictures, events, strict=True)
            ],
            "fragments": list(numbers),
            "legend": html(self.pictures[0].legend),
            "follow": [list(item) for item in self.follow],
            "has_time": self.has_time,
            "word": self.word,
        } | ({"lines": self.lines} if self.lines else {})


def requests_of(info: RunInfo) -> list[tuple[str, str]]:
    return [(f"request:{info.index(i)}", f"request {info.label(i)}") for i in info.titles]


def view_of(pictures: Sequence[Picture], numbers: dict[str, int]) -> dict[str, Any]:
    """Return the pictures of one width; `numbers` grows by the fragments that are new."""
    changes, before = [], list[int]()
    for picture in pictures:
        now = [numbers.setdefault(layer.content, len(numbers)) for layer in picture.layers]
        changed = [i for i, fragment in enumerate(now) if not before or before[i] != fragment]
        changes.append([number for i in changed for number in (i, now[i])])
        before = now
    first = pictures[0]
    bare = replace(first, layers=tuple(replace(layer, content=Markup("")) for layer in first.layers))
    names = [layer.name for layer in first.layers]
    return {"width": first.width, "svg": bare.svg(with_legend=False), "names": names, "changes": changes}


def shape(picture: Picture) -> tuple[object, ...]:
    places = [(layer.name, layer.x, layer.y, dict(layer.data)) for layer in picture.layers]
    return picture.width, picture.height, places
