"""Short stories around a hero and a thing, from a small grammar of plots."""

import random
from dataclasses import dataclass

from tools.tiny_model.words import ANIMALS, COLORS, FOODS, GIRLS, JOBS, LOOKS, NAMES, PLACES, THINGS, with_article


@dataclass(frozen=True)
class Cast:
    """The characters and things of one story."""

    hero: str
    friend: str
    animal: str
    thing: str
    color: str
    look: str
    food: str
    place: str
    other_place: str
    job: str

    @property
    def is_girl(self) -> bool:
        return self.hero in GIRLS

    @property
    def she(self) -> str:
        return "she" if self.is_girl else "he"

    @property
    def her(self) -> str:
        return "her" if self.is_girl else "his"

    @property
    def object_pronoun(self) -> str:
        return "her" if self.is_girl else "him"

    @property
    def A_look(self) -> str:  # noqa: N802 - begins a sentence
        return with_article(self.look).capitalize()

    @property
    def An_animal(self) -> str:  # noqa: N802
        return with_article(self.animal).capitalize()


def draw_cast(rng: random.Random, hero: str | None = None, thing: str | None = None) -> Cast:
    """Draw the words of one story; `hero` and `thing` are kept where given."""
    hero = hero or rng.choice(NAMES)
    place, other_place = rng.sample(PLACES, 2)
    return Cast(
        hero=hero,
        friend=rng.choice([name for name in NAMES if name != hero]),
        animal=rng.choice(ANIMALS),
        thing=thing or rng.choice(THINGS),
        color=rng.choice(COLORS),
        look=rng.choice(LOOKS),
        food=rng.choice(FOODS),
        place=place,
        other_place=other_place,
        job=rng.choice(JOBS),
    )


LOST_AND_FOUND = """\
At the {c.place}, the {c.thing} was gone.
"Where is my {c.thing}?" said {c.hero}.
{c.A_look} {c.animal} came to {c.object_pronoun}.
"I saw the {c.color} {c.thing} at the {c.other_place}," said the {c.animal}.
They walked to the {c.other_place} together.
The {c.thing} was there, under a tree."""
SHARING = """\
There {c.she} met {c.friend}.
"Can I play with your {c.thing}?" asked {c.friend}.
"Yes, we can share," said {c.hero}.
They played with the {c.color} {c.thing} until the sun went down.
Then they ate {c.food} and told jokes."""
RESCUE = """\
On the way, {c.hero} heard a sound.
{c.An_animal} was stuck in the mud.
"Please help me," said the {c.animal}.
{c.hero} was brave and pulled the {c.animal} out.
"Thank you, {c.hero}," said the {c.animal}.
The {c.animal} gave {c.hero} some {c.food}."""
RAIN = """\
It began to rain.
{c.hero} and {c.friend} ran to the {c.other_place}.
They were wet and cold.
An old {c.job} gave them warm {c.food}.
"You are very kind," said {c.hero}.
When the rain stopped, they saw a rainbow over the {c.place}."""
GIFT = """\
{c.hero} wanted to give the {c.thing} to {c.friend}.
{c.friend} was sick and could not go to the {c.other_place}.
"This {c.color} {c.thing} is for you," said {c.hero}.
{c.friend} smiled and felt better.
The next day they shared {c.food} at the {c.other_place}."""
PLOTS = [LOST_AND_FOUND, SHARING, RESCUE, RAIN, GIFT]


def story(rng: random.Random, hero: str | None = None, thing: str | None = None) -> str:
    """Tell one story of eight to ten sentences."""
    c = draw_cast(rng, hero, thing)
    child, she = "girl" if c.is_girl else "boy", c.she.capitalize()
    nature = rng.choice(["little", "kind", "brave", "shy"])
    openings = [
        f"Once upon a time, there was a {nature} {child} named {c.hero}.",
        f"{c.hero} was a {nature} {child} who lived near the {c.place}.",
        f"One day, a {nature} {child} named {c.hero} woke up early.",
    ]
    things = [
        f"{she} had {with_article(c.look)} {c.color} {c.thing}.",
        f"{c.hero} loved {c.her} {c.color} {c.thing} very much.",
        f"{c.her.capitalize()} best toy was {with_article(c.color)} {c.thing}.",
    ]
    journeys = [
        f"One morning, {c.hero} took the {c.thing} to the {c.place}.",
        f"{she} carried the {c.color} {c.thing} to the {c.place}.",
        f"Every day, {c.hero} went to the {c.place} with the {c.thing}.",
    ]
    endings = [
        f"{c.hero} was happy and went home.",
        f"{c.hero} felt proud. The end.",
        f"That night, {c.hero} slept well and dreamed of the {c.place}.",
    ]
    plot = rng.choice(PLOTS)
    lines = [rng.choice(openings), rng.choice(things), rng.choice(journeys), plot.format(c=c), rng.choice(endings)]
    return " ".join(lines).replace("\n", " ")
