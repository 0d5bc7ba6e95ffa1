"""Gives each request the same colour and label in every picture."""

from string import ascii_uppercase

# The Okabe-Ito colours, which colour-blind readers can tell apart, each with its most legible text colour. Yellow comes
# last, because as a foreground colour it is invisible on white.
OKABE_ITO = (
    ("#E69F00", "#000000"),
    ("#56B4E9", "#000000"),
    ("#009E73", "#000000"),
    ("#CC79A7", "#000000"),
    ("#0072B2", "#FFFFFF"),
    ("#D55E00", "#000000"),
    ("#999999", "#000000"),
    ("#F0E442", "#000000"),
)


def label(index: int) -> str:
    """Return the letter of request `index`: A to Z, then AA, AB, ..."""
    rest, letter = divmod(index, len(ascii_uppercase))
    return (label(rest - 1) if rest else "") + ascii_uppercase[letter]


def color(index: int) -> str:
    """Return the colour of request `index`. The colours repeat after eight requests."""
    return OKABE_ITO[index % len(OKABE_ITO)][0]


def ink_on(index: int) -> str:
    """Return black or white, whichever is more legible on the colour of request `index`."""
    return OKABE_ITO[index % len(OKABE_ITO)][1]


def lap(index: int) -> int:
    """Return the number of marks on request `index`, which is how many earlier requests share its colour."""
    return index // len(OKABE_ITO)
