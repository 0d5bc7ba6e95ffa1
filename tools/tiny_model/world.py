"""The tiny world: its words, facts and turns, read from `world.toml`, and the stories they make."""

import random
import tomllib
from pathlib import Path

WORLD = tomllib.loads(Path(__file__).with_name("world.toml").read_text(encoding="utf-8"))
WORDS: dict[str, list[str]] = {kind: text.split() for kind, text in WORLD["words"].items()}
NAMES = WORDS["girls"] + WORDS["boys"]


def with_article(word: str) -> str:
    """Return `word` with "a" or "an" before it."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def sentence_case(text: str) -> str:
    """Return `text` with its first letter in upper case and the rest untouched."""
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
