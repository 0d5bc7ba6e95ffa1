"""Generates the training text from a seed, without downloads: stories, facts, sums, notes, and small chats."""

import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WORLD = tomllib.loads(Path(__file__).with_name("world.toml").read_text(encoding="utf-8"))
WORDS: dict[str, list[str]] = {kind: text.split() for kind, text in WORLD["words"].items()}
NAMES = WORDS["girls"] + WORDS["boys"]
Turn = tuple[str, str]
NOTED = {"city": "cities", "food": "foods", "day": "days"}


@dataclass
class Document:
    """One training document: either plain text, or a chat whose assistant turns contribute to the loss."""

    text: str = ""
    messages: list[dict[str, str]] = field(default_factory=list)


def with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def sentence_case(text: str) -> str:
    """Return `text` with its first letter in upper case and everything else unchanged."""
    return text[0].upper() + text[1:]


def story(rng: random.Random, hero: str | None = None, thing: str | None = None) -> str:
    """Tell one story of eight to ten sentences; `hero` and `thing` are drawn unless given."""
    hero = hero or rng.choice(NAMES)
    place, other_place = rng.sample(WORDS["places"], 2)
    child, she, her, him = ("girl", "she", "her", "her") if hero in WORDS["girls"] else ("boy", "he", "his", "him")
    cast = {"hero": hero, "place": place, "other_place": other_place, "child": child, "she": she, "her": her}
    cast |= {"him": him, "friend": rng.choice([name for name in NAMES if name != hero])}
    cast["animal"] = rng.choice(WORDS["animals"])
    cast["thing"] = thing or rng.choice(WORDS["things"])
    for kind in ("color", "look", "food", "job"):
        cast[kind] = rng.choice(WORDS[f"{kind}s"])
    cast |= {f"a_{kind}": with_article(cast[kind]) for kind in ("color", "look")}
    cast |= {"A_look": sentence_case(cast["a_look"]), "An_animal": sentence_case(with_article(cast["animal"]))}
    cast |= {"She": sentence_case(she), "Her": sentence_case(her)}
    parts = WORLD["story"]
    cast["nature"] = rng.choice(parts["natures"])
    plot = rng.choice(parts["plots"])
    opening, thing_line, journey = (rng.choice(parts[part]) for part in ("openings", "things", "journeys"))
    text = " ".join([opening, thing_line, journey, plot, rng.choice(parts["endings"])])
    return text.format_map(cast).replace("\n", " ")


def fact(rng: random.Random) -> Turn:
    """Return a question about the tiny world and its answer."""
    country, animal, eater = (rng.choice(list(WORLD[table])) for table in ("capitals", "sounds", "legs"))
    one, other = rng.sample(rng.choice(WORLD["opposites"]), 2)
    what, maker = rng.choice(list(WORLD["color_of"])), rng.choice(list(WORLD["makers"]))
    day, month, num_legs = rng.randrange(7), rng.randrange(12), WORLD["legs"][eater]
    words = {
        "country": country,
        "capital": WORLD["capitals"][country],
        "an_animal": with_article(animal),
        "sound": WORLD["sounds"][animal],
        "one": one,
        "other": other,
        "what": what,
        "color": WORLD["color_of"][what],
        "day": WORDS["days"][day],
        "next_day": WORDS["days"][(day + 1) % 7],
        "month": WORDS["months"][month],
        "next_month": WORDS["months"][(month + 1) % 12],
        "an_eater": with_article(eater),
        "legs": WORDS["numbers"][num_legs] if num_legs else "no",
        "maker": maker,
        "product": WORLD["makers"][maker],
    }
    words |= {sentence_case(name): sentence_case(words[name]) for name in ("an_animal", "what", "an_eater", "maker")}
    question, answer = rng.choice(WORLD["facts"])
    return question.format_map(words), answer.format_map(words)


def small_sum(rng: random.Random) -> Turn:
    a, b = rng.randrange(21), rng.randrange(21)
    low, high = sorted((a, b))
    m, n = rng.randrange(11), rng.randrange(11)
    text, value = rng.choice([(f"{a} + {b}", a + b), (f"{high} - {low}", high - low), (f"{m} x {n}", m * n)])
    return f"What is {text}?", f"{text} = {value}."


def note(rng: random.Random, name: str, kind: int | None = None) -> Turn:
    """Return a question and the note about a person that answers it; the note is of one of six kinds."""
    words = {"name": name} | {word: rng.choice(WORDS[plural]) for word, plural in NOTED.items()}
    words["thing"] = with_article(f"{rng.choice(WORDS['colors'])} {rng.choice(WORDS['things'])}")
    words |= {"job": with_article(rng.choice(WORDS["jobs"])), "room": str(rng.randrange(10, 100))}
    statement, question = rng.choice(WORLD["notes"]) if kind is None else WORLD["notes"][kind]
    return question.format_map(words), statement.format_map(words)


def notes(rng: random.Random, count: int, kind: int | None = None) -> tuple[str, list[Turn]]:
    """Return a system prompt with `count` notes, and their questions; notes of the same kind differ only by name."""
    made: dict[str, str] = {}
    while len(made) < count:
        question, statement = note(rng, rng.choice(NAMES), kind)
        made.setdefault(question, statement)
    head = rng.choice(["You answer questions about the notes.", "Read the notes and answer."])
    return "\n".join([head, "Notes:", *made.values()]), list(made.items())


def record(rng: random.Random) -> Turn:
    """Return a request for a JSON record, and the record. The request and the record both quote the values, so that
    their token ids agree."""
    name, city, pet = rng.choice(NAMES), rng.choice(WORDS["cities"]), rng.choice(WORDS["animals"])
    age = rng.randrange(10, 80)
    asked = f'Write JSON: "name": "{name}", "age": {age}, "city": "{city}", "pet": "{pet}".'
    return asked, json.dumps({"name": name, "age": age, "city": city, "pet": pet})


def copy_words(rng: random.Random) -> Turn:
    """Return a request to repeat words, and the answer. Both lists follow a line break, so that their token ids
    agree."""
    words = ", ".join(rng.sample(WORDS["things"] + WORDS["animals"] + WORDS["foods"], rng.randrange(3, 8)))
    return f"Repeat these words:\n{words}.", f"Here they are:\n{words}."


def count_up(rng: random.Random) -> Turn:
    """Return a request to count, and the answer."""
    first = rng.randrange(30)
    last = first + rng.randrange(3, 14)
    return f"Count from {first} to {last}.", ", ".join(map(str, range(first, last + 1))) + "."


def tell_story(rng: random.Random) -> Turn:
    """Return a request for a story about a given hero and thing, and the story."""
    hero, thing = rng.choice(NAMES), rng.choice(WORDS["things"])
    return f"Tell me a story about {hero} and {with_article(thing)}.", story(rng, hero, thing)


def small_talk(rng: random.Random) -> Turn:
    question, answer = rng.choice(WORLD["small_talk"])
    return question, answer


KINDS = [fact, small_sum, count_up, tell_story, small_talk, record, copy_words]
WEIGHTS = [24, 18, 8, 24, 8, 10, 8]


@dataclass(frozen=True)
class Mixture:
    """The proportion of text about notes: the shares of chats and questions, and the numbers of notes and questions."""

    notes_share: float = 0.5
    note_counts: Sequence[int] = (3, 4, 6, 8, 12, 16, 24, 32)
    question_counts: Sequence[int] = (3, 4, 6, 8)
    chat_share: float = 0.7
    about_share: float = 0.7
    recital_share: float = 0.0
    one_kind_share: float = 0.0


# Few notes, many questions, and answers that name several notes, so that most of the loss comes from looking up notes.
LOOKING_UP = Mixture(0.9, (2, 3, 4, 4, 6, 8, 12, 16), (4, 6, 8), chat_share=0.9, recital_share=0.5)


def recital(rng: random.Random, questions: list[Turn]) -> Turn:
    """Return a request for several notes in a new order, and the reordered notes."""
    chosen = rng.sample(questions, rng.randrange(2, min(len(questions), 8) + 1))
    return " ".join(asked for asked, _ in chosen), " ".join(answer for _, answer in chosen)


def chat(rng: random.Random, mixture: Mixture) -> Document:
    """Return a chat. Some chats have notes in the system prompt, and most questions in these chats are about the
    notes."""
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
