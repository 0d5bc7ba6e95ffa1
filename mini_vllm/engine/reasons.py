"""Names the reasons why a request got no token in a step, and the limits that reduced its share.

Labels are those of `vllm:num_requests_waiting_by_reason` in vLLM 0.33.0
(`v1/metrics/loggers.py`): "capacity" for requests in `waiting`, "deferred" for those in `skipped_waiting`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Label = Literal["capacity", "deferred", ""]
Found = Mapping[str, Any]
"""A reason in a step's record: its name under `reason`, and the numbers and requests of its sentence."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason.

    `sentence` is the text that follows "r5 waits: ". `mark` is for narrow tables. `label` is vLLM's label, or "" if
    vLLM has none.

    A mark that ends with "!" shows a mistake in a phase: the request could have been served.
    """

    name: str
    mark: str
    label: Label
    sentence: str

    @property
    def breaks_rule(self) -> bool:
        return self.mark.endswith("!")


_ROWS: tuple[tuple[str, str, Label, str], ...] = (
    ("seats", "seats", "capacity", "{running} of {seats} seats are taken"),
    ("tokens", "tokens", "capacity", "the step's {budget} tokens are spent, {most} of them on {on}"),
    ("blocks", "blocks", "capacity", "it needs {needed} blocks, and {free} are free"),
    (
        "reservation",
        "blocks",
        "capacity",
        "it needs {needed} blocks; {free} are free, of which {promised} are promised to others and {kept} are kept",
    ),
    ("guard", "guard", "capacity", "the admission guard keeps the {free} free blocks for running requests"),
    ("whole_prompt", "prompt", "capacity", "{left} tokens are left, and its {needed} must fit into one step"),
    ("closed", "closed", "capacity", "{by} was short of blocks in this step, which closes admission"),
    ("behind", "queue", "capacity", "{by} comes first and was refused"),
    ("preempted", "victim", "capacity", "{by} needed its blocks"),
    ("self_preempted", "victim", "capacity", "no block was free, and it was the last victim"),
    ("grammar", "grammar", "deferred", "its grammar is being compiled"),
    ("failed", "grammar", "deferred", "its grammar cannot be compiled"),
    ("transfer", "K/V", "deferred", "its K and V are on their way"),
    ("adapters", "adapter", "deferred", "other adapters fill the step's {adapters} places"),
    (
        "images",
        "image",
        "deferred",
        "its next image does not fit into what is left of the budget {budget} or the cache {cache}",
    ),
    ("lookahead", "draft", "deferred", "a shorter share would end too near its last token for the drafter"),
    ("padding", "draft", "capacity", "its token and {drafts} drafts do not fit into the {left} tokens left"),
    ("interval", "interval", "capacity", "prompts are computed in every {interval}th step only"),
    ("policy", "policy", "capacity", "the policy chose other requests"),
    ("paused", "pause", "capacity", "scheduling is paused"),
    ("in_flight", "result", "", "a step in flight computes its next token"),
    ("blocks_in_flight", "blocks", "", "a step in flight may still write to its victim's blocks"),
    ("loop_ended", "order", "", "the step served nobody after {by}, which was short of blocks"),
    ("refused", "refused!", "capacity", "it was refused although {free} blocks were free and it needs {needed}"),
    ("no_tokens", "tokens!", "capacity", "it got no token although {left} were left"),
    (
        "overlooked",
        "skipped!",
        "capacity",
        "the step passed it over although {left} tokens, {seats} seats and {free} blocks were left",
    ),
)
ONE = re.compile(r"\b(?<!of )1 (block|token|seat)s\b")
ONE_IS = re.compile(r"\b(1(?: block| token)?) are\b")
ONE_WAS = re.compile(r"(?<!and )\b(1(?: block)?) were\b")
REASONS = {row[0]: Reason(*row) for row in _ROWS}

LIMITS = {
    "need": "all its known tokens",
    "tokens": "the {budget} tokens that were left of the budget",
    "threshold": "the long-prefill threshold of {threshold} tokens",
    "model_length": "the model's last position, {max_model_len}",
    "adapters": "the places for adapters",
    "images": "the budget for images",
    "lookahead": "the tokens that the drafter reads after a chunk",
    "chunks": "phase 5, which granted {n} of {needed} tokens",
}
"""What can bind the share of a request that gets tokens. A record omits `need`."""


def sentence_of(found: Found) -> str:
    """Return a recorded reason as the end of a sentence, with its numbers."""
    sentence = REASONS[found["reason"]].sentence.format_map(found)
    for plural, singular in ((ONE, r"1 \1"), (ONE_IS, r"\1 is"), (ONE_WAS, r"\1 was")):
        sentence = plural.sub(singular, sentence)
    return sentence


def limit_sentence(found: Found) -> str:
    """Return a recorded limit in words, with its numbers."""
    return LIMITS[found["limit"]].format_map(found)


def cause_of(found: Found, reasons: Mapping[str, Found]) -> Reason:
    """Return why a request waits; if it waits only for a refused request ahead of it, return that request's reason."""
    head = reasons.get(found["by"], found) if found["reason"] == "behind" else found
    return REASONS[head["reason"]]


def waiting_for(reasons: Mapping[str, Found]) -> Counter[str]:
    """Count a step's waiting requests by the mark of their reason."""
    causes = (cause_of(found, reasons) for found in reasons.values())
    return Counter(cause.mark for cause in causes if cause.label)
