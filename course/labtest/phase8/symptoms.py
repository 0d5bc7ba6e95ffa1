"""What wrong placeholders and stand-ins show by themselves: true for every mistake that leaves them so."""

from collections.abc import Mapping
from dataclasses import dataclass

from course.views.text import counted

Advice = tuple[str, str]

SAMPLES_OR_NOT = (
    "A step samples if it computes the last token that is known or expected: only then does it bring tokens and take "
    "placeholders."
)
EVERY_TOKEN = "A step that verifies d drafts may bring 1 + d tokens: each has a placeholder."
ADDED = "Placeholders of steps in flight stay: those of the new step are added."
STAND_INS = (
    "A request that samples gets drafts: after such a step, spec_token_ids are num_speculative_tokens stand-ins of -1."
)
NOTHING_ELSE = "take_placeholders changes num_output_placeholders and spec_token_ids, and nothing else."
RULE_OF_FILLING = "A token that has arrived gives back one placeholder; those of steps still in flight stay."
ONLY_WHAT_ARRIVED = "fill_placeholders gives back one placeholder for each token that has arrived, and changes no more."


@dataclass(frozen=True, slots=True)
class Taking:
    """A call of `take_placeholders`: the counters before it. `computed` includes the step."""

    num_prompt: int
    num_outputs: int
    placeholders: int
    computed: int
    num_drafts: int
    num_speculative_tokens: int

    @property
    def num_tokens(self) -> int:
        return self.num_prompt + self.num_outputs

    @property
    def samples(self) -> bool:
        return self.computed == self.num_tokens + self.placeholders + self.num_drafts

    @property
    def num_brought(self) -> int:
        return 1 + self.num_drafts if self.samples else 0

    def line(self) -> str:
        """Return the parts of the request's line in numbers."""
        return (
            f"{self.computed} computed with this step; {self.num_tokens} known, {self.placeholders} expected before "
            f"it, {counted(self.num_drafts, 'draft')} in it"
        )


def also_changed(names: object) -> str:
    listed = " and ".join(map(str, names)) if isinstance(names, list) else names
    return f"your code changed {listed}, too. Which part of the engine does that, and when?"


def symptom_of_placeholders(taking: Taking, found: int, stand_ins: object) -> Advice:
    """Return (rule, hint) for a wrong number of placeholders. `stand_ins` are those that were left with it."""
    before, taken = taking.placeholders, found - taking.placeholders
    if not taking.samples:
        return SAMPLES_OR_NOT, (
            f"{taking.computed} of {taking.num_tokens} known tokens are computed after this step. Which token would it "
            "sample, one that is not known yet?"
        )
    if taken == 0 and not stand_ins:
        return SAMPLES_OR_NOT, f"your code took none. {taking.line()}. Which of these does your condition use, and how?"
    if before and found == taking.num_brought:
        return ADDED, f"{counted(before, 'placeholder')} before this step, for results still to come. Where are they?"
    return EVERY_TOKEN, (
        f"{counted(before, 'placeholder')} before your call and {found} after it. If all of this step's drafts, "
        f"{taking.num_drafts}, are right: how many tokens arrive?"
    )


def symptom_of_stand_ins(taking: Taking, found: object) -> Advice:
    """Return (rule, hint) for wrong stand-ins."""
    most = taking.num_speculative_tokens
    if not taking.samples:
        return SAMPLES_OR_NOT, (
            "this step samples nothing, so the next one has known tokens to compute. Which requests get stand-ins?"
        )
    if isinstance(found, list) and len(found) == most:
        return STAND_INS, f"yours are {found}. Which number is the id of no token?"
    has = f"yours are {found}" if found else "yours are none"
    return STAND_INS, f"{has}. How many drafts may the next step verify, and which of your numbers says so?"


def symptom_of_fill(placeholders: int, num_tokens: int, status: str, yours: Mapping[str, object]) -> Advice:
    """Return (rule, hint) for what `fill_placeholders` left."""
    if changed := yours["also changed"]:
        return ONLY_WHAT_ARRIVED, also_changed(changed)
    found = int(str(yours["num_output_placeholders"]))
    given, still = placeholders - found, placeholders - num_tokens
    if given == 0:
        return RULE_OF_FILLING, f"your code gave back none to this {status} request. On what does that depend?"
    if given < 0:
        return RULE_OF_FILLING, "when tokens arrive, are more of them still to come than before, or fewer?"
    if found == 0:
        return RULE_OF_FILLING, f"{counted(still, 'token')} still to come. Which counter remembers that, until when?"
    return RULE_OF_FILLING, f"arrived: {counted(num_tokens, 'token')}. Your code gave back {given}: which are those?"
