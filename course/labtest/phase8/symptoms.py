"""Mistakes with placeholders that show in the counters: a better rule and hint than those of the test.

They are looked for only after a test has failed, and each is named only if it gives exactly the number found.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Advice = tuple[str, str]

SAMPLES_OR_NOT = (
    "A step samples if it computes the last token that is known or expected: only then does it bring tokens and take "
    "placeholders."
)
EVERY_TOKEN = "A step that verifies d drafts may bring 1 + d tokens: each has a placeholder."
ADDED = "Placeholders of steps in flight stay: those of the new step are added."
AS_PLANNED = "The placeholders of a step follow from the drafts that were scheduled, not from the most that may be."
STAND_INS = (
    "Whoever samples gets drafts: after a step that samples, spec_token_ids are num_speculative_tokens stand-ins of -1."
)
NOTHING_ELSE = "take_placeholders changes num_output_placeholders and spec_token_ids, and nothing else."
RULE_OF_FILLING = "A token that has arrived gives back one placeholder; those of steps still in flight stay."
ONLY_WHAT_ARRIVED = "fill_placeholders gives back one placeholder for each token that has arrived, and changes no more."


@dataclass(frozen=True, slots=True)
class Taking:
    """A call of `take_placeholders`: the counters before it, and whether the step samples."""

    num_tokens: int
    placeholders: int
    computed: int
    num_drafts: int
    num_speculative_tokens: int
    samples: bool

    @property
    def num_brought(self) -> int:
        return 1 + self.num_drafts if self.samples else 0


def counted(number: int, noun: str) -> str:
    """Return `1 token`, `2 tokens`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def the_only(found: object, mistakes: Iterable[tuple[object, str, str]], expected: object) -> Advice | None:
    """Return (rule, hint) of the mistake that gives what was found; None if there is none, or more than one."""
    fitting = [(rule, hint) for wrong, rule, hint in mistakes if found == wrong != expected]
    return fitting[0] if len(fitting) == 1 else None


def symptom_of_take(taking: Taking, yours: Mapping[str, object], expected: Mapping[str, object]) -> Advice | None:
    """Return (rule, hint) if one mistake explains what was found."""
    if changed := yours["also changed"]:
        return NOTHING_ELSE, f"your code changed {changed}, too. Who does that, and when?"
    found, right = yours["num_output_placeholders"], expected["num_output_placeholders"]
    if found != right:
        return the_only(found, _miscounts(taking), right)
    return the_only(yours["spec_token_ids"], _wrong_stand_ins(taking), expected["spec_token_ids"])


def _miscounts(taking: Taking) -> Iterator[tuple[int, str, str]]:
    """Yield the placeholders that a mistake leaves, the rule that it breaks, and a hint."""
    before, drafts, most = taking.placeholders, taking.num_drafts, taking.num_speculative_tokens
    if not taking.samples:
        yield (
            before + 1 + drafts,
            SAMPLES_OR_NOT,
            f"{taking.computed} of {taking.num_tokens} known tokens are computed after this step. Which token would "
            "it sample, one that is not known yet?",
        )
        return
    if before != 1 + drafts:
        yield (
            before,
            SAMPLES_OR_NOT,
            f"your code took none, for {taking.computed} computed tokens: {taking.num_tokens} known, {before} expected "
            f"before this step, {counted(drafts, 'draft')}. Which of these does your condition add up?",
        )
    if before == 1 + drafts:
        yield (
            before,
            ADDED,
            f"{before} expected before this step and {before} more by it: your code leaves {before}. Does it take "
            "none, or put its own in the place of the others?",
        )
    elif before:
        yield (
            1 + drafts,
            ADDED,
            f"{counted(before, 'placeholder')} before this step, for results still to come. Where are they now?",
        )
    if drafts:
        yield (
            before + 1,
            EVERY_TOKEN,
            f"your code took 1, for {counted(drafts, 'draft')}. If all are right, how many tokens arrive?",
        )
        yield (
            before + drafts,
            EVERY_TOKEN,
            f"your code took {drafts}, for {counted(drafts, 'draft')}. Which token comes behind right drafts?",
        )
        yield (
            before + 1 + 2 * drafts,
            EVERY_TOKEN,
            f"your code took {1 + 2 * drafts} for {counted(drafts, 'draft')}. How often does it count a draft?",
        )
    if drafts != most:
        yield (
            before + 1 + most,
            AS_PLANNED,
            f"{counted(drafts, 'draft')} of at most {most}: your code took {1 + most}. Which of the two is in that?",
        )


def _wrong_stand_ins(taking: Taking) -> Iterator[tuple[list[int], str, str]]:
    """Yield the drafts that a mistake leaves, the rule that it breaks, and a hint."""
    most, drafts = taking.num_speculative_tokens, taking.num_drafts
    if not taking.samples:
        yield (
            [-1] * most,
            SAMPLES_OR_NOT,
            "this step samples nothing, so the next one has known tokens to compute. Who gets stand-ins?",
        )
        return
    yield [], STAND_INS, f"your code leaves no drafts. How many does the next step verify, of at most {most}?"
    if drafts:
        yield (
            [-1] * drafts,
            STAND_INS,
            f"this step verifies {counted(drafts, 'draft')}. Does that say anything about the next one?",
        )
    yield [0] * most, STAND_INS, "0 is the id of a real token, and -1 of none. What do yours stand for?"
    yield [-1] * (1 + most), STAND_INS, f"at most {counted(most, 'draft')}: how many stand-ins does your code make?"
    yield (
        [-1] * (most + 3),
        STAND_INS,
        "another object, for 3 drafts more, was made after this one. Where does each keep its number?",
    )


def symptom_of_fill(placeholders: int, num_tokens: int, yours: Mapping[str, object]) -> Advice | None:
    """Return (rule, hint) if one mistake explains what was found."""
    if changed := yours["also changed"]:
        return ONLY_WHAT_ARRIVED, f"your code changed {changed}, too. Who does that, and when?"
    still = placeholders - num_tokens
    mistakes = [
        (placeholders, "your code gave back none. Is there a request for which it does nothing?"),
        (
            placeholders - 1,
            f"your code gave back 1, and the argument is {num_tokens}. How many of the tokens were expected?",
        ),
        (0, f"{counted(still, 'token')} still to come. Who remembers that until a later step brings them?"),
        (placeholders + num_tokens, "when tokens arrive, are more of them still to come than before, or fewer?"),
    ]
    found = yours["num_output_placeholders"]
    return the_only(found, ((wrong, RULE_OF_FILLING, hint) for wrong, hint in mistakes), still)
