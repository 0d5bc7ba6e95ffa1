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
    def she(self) -> str:
        return "She" if self.hero in GIRLS else "He"

    @property
    def her(self) -> str:
        return "her" if self.hero in GIRLS else "his"

    @property
    def object_pronoun(self) -> str:
        return "her" if self.hero in GIRLS else "him"

    @property
    def child(self) -> str:
        return "girl" if self.hero in GIRLS else "boy"


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


def lost_and_found(c: Cast) -> list[str]:
    return [
        f"At the {c.place}, the {c.thing} was gone.",
        f'"Where is my {c.thing}?" said {c.hero}.',
        f"{with_article(c.look).capitalize()} {c.animal} came to {c.object_pronoun}.",
        f'"I saw the {c.color} {c.thing} at the {c.other_place}," said the {c.animal}.',
        f"They walked to the {c.other_place} together.",
        f"The {c.thing} was there, under a tree.",
    ]


def sharing(c: Cast) -> list[str]:
    return [
        f"There {c.she.lower()} met {c.friend}.",
        f'"Can I play with your {c.thing}?" asked {c.friend}.',
        f'"Yes, we can share," said {c.hero}.',
        f"They played with the {c.color} {c.thing} until the sun went down.",
        f"Then they ate {c.food} and told jokes.",
    ]


def rescue(c: Cast) -> list[str]:
    return [
        f"On the way, {c.hero} heard a sound.",
        f"{with_article(c.animal).capitalize()} was stuck in the mud.",
        f'"Please help me," said the {c.animal}.',
        f"{c.hero} was brave and pulled the {c.animal} out.",
        f'"Thank you, {c.hero}," said the {c.animal}.',
        f"The {c.animal} gave {c.hero} some {c.food}.",
    ]


def rain(c: Cast) -> list[str]:
    return [
        "It began to rain.",
        f"{c.hero} and {c.friend} ran to the {c.other_place}.",
        "They were wet and cold.",
        f"An old {c.job} gave them warm {c.food}.",
        f'"You are very kind," said {c.hero}.',
        f"When the rain stopped, they saw a rainbow over the {c.place}.",
    ]


def gift(c: Cast) -> list[str]:
    return [
        f"{c.hero} wanted to give the {c.thing} to {c.friend}.",
        f"{c.friend} was sick and could not go to the {c.other_place}.",
        f'"This {c.color} {c.thing} is for you," said {c.hero}.',
        f"{c.friend} smiled and felt better.",
        f"The next day they shared {c.food} at the {c.other_place}.",
    ]


PLOTS = [lost_and_found, sharing, rescue, rain, gift]


def story(rng: random.Random, hero: str | None = None, thing: str | None = None) -> str:
    """Tell one story of eight to ten sentences."""
    c = draw_cast(rng, hero, thing)
    nature = rng.choice(["little", "kind", "brave", "shy"])
    openings = [
        f"Once upon a time, there was a {nature} {c.child} named {c.hero}.",
        f"{c.hero} was a {nature} {c.child} who lived near the {c.place}.",
        f"One day, a {nature} {c.child} named {c.hero} woke up early.",
    ]
    things = [
        f"{c.she} had {with_article(c.look)} {c.color} {c.thing}.",
        f"{c.hero} loved {c.her} {c.color} {c.thing} very much.",
        f"{c.her.capitalize()} best toy was {with_article(c.color)} {c.thing}.",
    ]
    journeys = [
        f"One morning, {c.hero} took the {c.thing} to the {c.place}.",
        f"{c.she} carried the {c.color} {c.thing} to the {c.place}.",
        f"Every day, {c.hero} went to the {c.place} with the {c.thing}.",
    ]
    endings = [
        f"{c.hero} was happy and went home.",
        f"{c.hero} felt proud. The end.",
        f"That night, {c.hero} slept well and dreamed of the {c.place}.",
    ]
    plot = rng.choice(PLOTS)
    lines = [rng.choice(openings), rng.choice(things), rng.choice(journeys), *plot(c), rng.choice(endings)]
    return " ".join(lines)
