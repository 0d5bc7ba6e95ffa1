"""Encodes a sequence of pictures with the same shape, storing unchanged layers only once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from mini_vllm_labs.pictures.picture import WIDTH, Picture, html
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.runs.traces.run_state import RunInfo


@dataclass(frozen=True)
class Film:
    """Pictures with the same layers in the same positions, one per step; `also` contains versions for other page
    widths.

    `follow` lists what a reader can follow, as (key, name): the key `request:0` stands for elements with
    `data-request="0"`, and `block:17` for `data-block="17"`. `events` names, for each picture, the events at which
    playback can stop, such as `("preemption",)`. With `has_time`, the scale `time` is also available. `word` says what
    a picture shows: a step, or a row of a batch. A player opens at picture `first`. `lines` contains the lines of code
    that decided each step, as `Lines.encode` returns them. Raises `ValueError` if the pictures differ in shape, or if
    `events` and the pictures differ in number.
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
        """Build a film from pictures, keyed by the page width in px that they are drawn for."""
        also = [pictures for width, pictures in drawn.items() if width != WIDTH]
        return cls(drawn[WIDTH], also, follow, **shown)

    def __post_init__(self) -> None:
        if not self.pictures:
            raise ValueError("a film needs at least one picture: the trace has no steps")
        for pictures in (self.pictures, *self.also):
            first = shape(pictures[0])
            for number, picture in enumerate(pictures):
                if shape(picture) != first:
                    raise ValueError(
                        f"picture {number} differs from picture 0 in size, in its layers or in their positions"
                    )
        if self.events and len(self.events) != len(self.pictures):
            raise ValueError(f"there are {len(self.pictures)} pictures, but {len(self.events)} lists of events")

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, step: int) -> Picture:
        """Return a single picture. Raises `ValueError` for a step outside the film."""
        if not 0 <= step < len(self.pictures):
            raise ValueError(f"step is {step}, but it must be from 0 to {len(self.pictures) - 1}")
        return self.pictures[step]

    def still(self, step: int) -> Picture:
        """Return a single picture for a page of any width. Raises `ValueError` for a step outside the film."""
        first = self[step]
        narrow = min((pictures[step] for pictures in self.also), key=lambda picture: picture.width, default=None)
        return replace(first, narrow=narrow)

    def changed(self, change: Callable[[Picture], Picture]) -> "Film":
        also = [list(map(change, pictures)) for pictures in self.also]
        return replace(self, pictures=list(map(change, self.pictures)), also=also)

    def encode(self) -> dict[str, Any]:
        """Encode the film for the player.

        `fragments` contains the distinct contents of layers and text alternatives. A frame's `stop` names the events at
        which playback can stop. Each width has a view: `svg` contains its layers, still empty, and `changes` lists, per
        step, the layer and fragment numbers of each changed layer.
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
    """Encode the pictures for one width, and add new fragments to `numbers`."""
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
