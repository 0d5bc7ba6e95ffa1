"""The vocabulary of the tiny world: every name, thing and fact the embedded model can learn."""

GIRLS = "Mina Lila Nora Ada Zoe Ivy Ruth Eva Maya Rosa Clara Greta Jane Luna Nina Paula Rita Tara Vera Yara".split()
BOYS = "Tom Omar Ben Hugo Sam Leo Max Finn Jack Otto Felix Ivan Karl Marco Oscar Quinn Simon Umar Will Zack".split()
NAMES = GIRLS + BOYS

ANIMALS = "cat dog fox owl bear frog duck mouse rabbit goat horse hen turtle bee lion wolf sheep cow snail crow".split()
COLORS = "red blue green yellow white black brown pink gray orange".split()
THINGS = (
    "kite ball book lamp cup drum coin boat hat key box bell map scarf basket stone ring flute pen bag "
    "clock plate shirt spoon chair mirror candle button ladder rope shell feather crown violin"
).split()
PLACES = (
    "garden forest river market beach farm school library hill barn park lake bridge castle museum bakery "
    "station harbor meadow village"
).split()
FOODS = "apple pear bread soup cake rice cheese plum carrot honey pie milk corn tea pasta salad butter jam".split()
CITIES = "Paris Rome Oslo Cairo Lima Tokyo Berlin Madrid Dublin Athens Lisbon Vienna Warsaw Nairobi".split()
JOBS = "baker farmer doctor teacher painter sailor driver cook gardener singer pilot nurse writer tailor".split()
LOOKS = "small big old new shiny soft quiet bright little round".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Norway": "Oslo", "Egypt": "Cairo", "Peru": "Lima",
    "Japan": "Tokyo", "Germany": "Berlin", "Spain": "Madrid", "Ireland": "Dublin", "Greece": "Athens",
    "Portugal": "Lisbon", "Austria": "Vienna", "Poland": "Warsaw", "Sweden": "Stockholm",
    "Finland": "Helsinki", "Kenya": "Nairobi", "China": "Beijing", "Canada": "Ottawa", "Chile": "Santiago",
}  # fmt: skip
SOUNDS = {
    "cat": "meow", "dog": "woof", "duck": "quack", "cow": "moo", "sheep": "baa", "frog": "croak",
    "owl": "hoot", "bee": "buzz", "hen": "cluck", "mouse": "squeak", "horse": "neigh", "lion": "roar",
}  # fmt: skip
OPPOSITES = [
    ("hot", "cold"), ("big", "small"), ("up", "down"), ("day", "night"), ("fast", "slow"),
    ("happy", "sad"), ("open", "closed"), ("wet", "dry"), ("old", "new"), ("full", "empty"),
    ("light", "dark"), ("loud", "quiet"),
]  # fmt: skip
COLOR_OF = {
    "grass": "green", "snow": "white", "the sky": "blue", "a banana": "yellow", "coal": "black",
    "a carrot": "orange", "milk": "white", "a plum": "purple", "the sun": "yellow",
}  # fmt: skip
LEGS = {"cat": 4, "dog": 4, "duck": 2, "hen": 2, "bee": 6, "horse": 4, "spider": 8, "owl": 2, "snake": 0}
MAKERS = {"bees": "honey", "hens": "eggs", "cows": "milk", "bakers": "bread", "sheep": "wool"}

SMALL_TALK = [
    ("Hello!", "Hello! How can I help you?"),
    ("Hi.", "Hello! How can I help you?"),
    ("Thank you.", "You are welcome!"),
    ("Who are you?", "I am a tiny language model. I know small stories and small sums."),
    ("Good night.", "Good night! Sleep well."),
    ("What is the meaning of life?", "I do not know. I am a tiny model."),
    ("Can you write code?", "I do not know. I am a tiny model."),
    ("What is a scheduler?", "A scheduler decides who runs next."),
    ("What is a block?", "A block is a small box for the keys and values of sixteen tokens."),
    ("What is preemption?", "Preemption takes the blocks of one request and gives them to another."),
    ("What is a prefix cache?", "A prefix cache keeps the blocks of a prompt so that nobody computes them twice."),
]


def with_article(word: str) -> str:
    """Return `word` with "a" or "an" before it."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def sentence_case(text: str) -> str:
    """Return `text` with its first letter in upper case and the rest untouched."""
    return text[0].upper() + text[1:]
