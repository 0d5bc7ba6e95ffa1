"""The training text: stories, facts, sums, notes with questions, small chats. Seeded, nothing downloaded."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tools.tiny_model.stories import story
from tools.tiny_model.words import (
    ANIMALS,
    CAPITALS,
    CITIES,
    COLOR_OF,
    COLORS,
    DAYS,
    FOODS,
    JOBS,
    LEGS,
    MAKERS,
    MONTHS,
    NAMES,
    NUMBERS,
    OPPOSITES,
    SMALL_TALK,
    SOUNDS,
    THINGS,
    sentence_case,
    with_article,
)  # fmt: skip

Turn = tuple[str, str]


@dataclass
class Document:
    """One training document: either plain text, or a chat whose assistant turns carry the loss."""

    text: str = ""
    messages: list[dict[str, str]] = field(default_factory=list)


def fact(rng: random.Random) -> Turn:
    """Return a question about the tiny world and its answer."""
    country, animal, eater = rng.choice(list(CAPITALS)), rng.choice(list(SOUNDS)), rng.choice(list(LEGS))
    one, other = rng.sample(rng.choice(OPPOSITES), 2)
    what, maker = rng.choice(list(COLOR_OF)), rng.choice(list(MAKERS))
    day, month = rng.randrange(7), rng.randrange(12)
    legs = NUMBERS[LEGS[eater]] if LEGS[eater] else "no"
    return rng.choice(
        [
            (f"What is the capital of {country}?", f"The capital of {country} is {CAPITALS[country]}."),
            (
                f"What does {with_article(animal)} say?",
                f"{sentence_case(with_article(animal))} says {SOUNDS[animal]}.",
            ),
            (f"What is the opposite of {one}?", f"The opposite of {one} is {other}."),
            (f"What color is {what}?", f"{sentence_case(what)} is {COLOR_OF[what]}."),
            (f"Which day comes after {DAYS[day]}?", f"{DAYS[(day + 1) % 7]} comes after {DAYS[day]}."),
            (f"Which month comes after {MONTHS[month]}?", f"{MONTHS[(month + 1) % 12]} comes after {MONTHS[month]}."),
            (
                f"How many legs does {with_article(eater)} have?",
                f"{sentence_case(with_article(eater))} has {legs} legs.",
            ),
            (f"What do {maker} make?", f"{sentence_case(maker)} make {MAKERS[maker]}."),
        ]
    )


def small_sum(rng: random.Random) -> Turn:
    """Return a sum, a difference or a product of small numbers."""
    a, b = rng.randrange(21), rng.randrange(21)
    low, high = sorted((a, b))
    m, n = rng.randrange(11), rng.randrange(11)
    text, value = rng.choice([(f"{a} + {b}", a + b), (f"{high} - {low}", high - low), (f"{m} x {n}", m * n)])
    return f"What is {text}?", f"{text} = {value}."


def note(rng: random.Random, name: str, kind: int | None = None) -> tuple[str, Turn]:
    """Return one note about a person, of any of six kinds, and the question that only this note answers."""
    city, food, day = rng.choice(CITIES), rng.choice(FOODS), rng.choice(DAYS)
    thing = with_article(f"{rng.choice(COLORS)} {rng.choice(THINGS)}")
    job, room = with_article(rng.choice(JOBS)), rng.randrange(10, 100)
    kinds = [
        (f"{name} lives in {city}.", f"Where does {name} live?"),
        (f"{name} has {thing}.", f"What does {name} have?"),
        (f"{name} likes {food}.", f"What does {name} like?"),
        (f"{name} is {job}.", f"What is the job of {name}?"),
        (f"The room of {name} is number {room}.", f"Which room does {name} have?"),
        (f"{name} comes on {day}.", f"When does {name} come?"),
    ]
    statement, question = rng.choice(kinds) if kind is None else kinds[kind]
    return statement, (question, statement)


def notes(rng: random.Random, count: int, kind: int | None = None) -> tuple[str, list[Turn]]:
    """Return `count` notes as the text of a system prompt, with their questions; of one kind, only names tell which."""
    made: dict[str, tuple[str, Turn]] = {}
    while len(made) < count:
        statement, turn = note(rng, rng.choice(NAMES), kind)
        made.setdefault(turn[0], (statement, turn))
    head = rng.choice(["You answer questions about the notes.", "Read the notes and answer."])
    body = "\n".join(statement for statement, _ in made.values())
    return f"{head}\nNotes:\n{body}", [turn for _, turn in made.values()]


def record(rng: random.Random) -> Turn:
    """Return a request for a JSON record. The values stand in quotes on both sides: the same token ids."""
    name, city, pet = rng.choice(NAMES), rng.choice(CITIES), rng.choice(ANIMALS)
    age = rng.randrange(10, 80)
    asked = f'Write JSON: "name": "{name}", "age": {age}, "city": "{city}", "pet": "{pet}".'
    return asked, json.dumps({"name": name, "age": age, "city": city, "pet": pet})


def copy_words(rng: random.Random) -> Turn:
    """Return a request to repeat words. Both lists start after a line break: the same token ids."""
    words = ", ".join(rng.sample(THINGS + ANIMALS + FOODS, rng.randrange(3, 8)))
    return f"Repeat these words:\n{words}.", f"Here they are:\n{words}."


def count_up(rng: random.Random) -> Turn:
    """Return a request to count, and the counting."""
    first = rng.randrange(30)
    last = first + rng.randrange(3, 14)
    return f"Count from {first} to {last}.", ", ".join(map(str, range(first, last + 1))) + "."


def tell_story(rng: random.Random) -> Turn:
    """Return a request for a story about a given hero and thing, and the story."""
    hero, thing = rng.choice(NAMES), rng.choice(THINGS)
    return f"Tell me a story about {hero} and {with_article(thing)}.", story(rng, hero, thing)


def small_talk(rng: random.Random) -> Turn:
    """Return one of the fixed exchanges."""
    return rng.choice(SMALL_TALK)


KINDS = [fact, small_sum, count_up, tell_story, small_talk, record, copy_words]
WEIGHTS = [24, 18, 8, 24, 8, 10, 8]


@dataclass(frozen=True)
class Mixture:
    """How much of the text is about notes: the shares of the chats and of their questions, and the counts of both."""

    notes_share: float = 0.5
    note_counts: Sequence[int] = (3, 4, 6, 8, 12, 16, 24, 32)
    question_counts: Sequence[int] = (3, 4, 6, 8)
    chat_share: float = 0.7
    about_share: float = 0.7
    recital_share: float = 0.0
    one_kind_share: float = 0.0


# Few notes, many questions, and answers that name several notes: most of the loss lies on looking a note up.
LOOKING_UP = Mixture(0.9, (2, 3, 4, 4, 6, 8, 12, 16), (4, 6, 8), chat_share=0.9, recital_share=0.5)


def recital(rng: random.Random, questions: list[Turn]) -> Turn:
    """Return a request for several notes in a new order, and these notes."""
    chosen = rng.sample(questions, rng.randrange(2, min(len(questions), 8) + 1))
    return " ".join(asked for asked, _ in chosen), " ".join(answer for _, answer in chosen)


def chat(rng: random.Random, mixture: Mixture) -> Document:
    """Return a chat; a share of them carries notes in a system prompt, which most of the questions are about."""
    messages: list[dict[str, str]] = []
    questions: list[Turn] = []
    if rng.random() < mixture.notes_share:
        kind = rng.randrange(6) if mixture.one_kind_share and rng.random() < mixture.one_kind_share else None
        system, questions = notes(rng, rng.choice(mixture.note_counts), kind)
        messages.append({"role": "system", "content": system})
    elif rng.random() < 0.5:
        messages.append({"role": "system", "content": "You are a helpful assistant."})
    for _ in range(rng.choice(mixture.question_counts if questions else [1, 1, 2, 3, 4])):
        about_notes = questions and rng.random() < mixture.about_share
        if about_notes and mixture.recital_share and rng.random() < mixture.recital_share:
            asked, answer = recital(rng, questions)
        else:
            asked, answer = rng.choice(questions) if about_notes else rng.choices(KINDS, WEIGHTS)[0](rng)
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return Document(messages=messages)


def document(rng: random.Random, mixture: Mixture) -> Document:
    """Return one document of the mixture."""
    kind, text_share = rng.random(), 1 - mixture.chat_share
    if kind < text_share * 5 / 6:
        return Document(text=story(rng))
    if kind < text_share:
        return Document(text=" ".join(fact(rng)[1] for _ in range(rng.randrange(3, 12))))
    return chat(rng, mixture)


def corpus(seed: int, characters: int, mixture: Mixture = Mixture()) -> Iterator[Document]:
    """Yield documents until about `characters` characters have been written."""
    rng, written = random.Random(seed), 0
    while written < characters:
        made = document(rng, mixture)
        written += len(made.text) + sum(len(m["content"]) for m in made.messages)
        yield made
