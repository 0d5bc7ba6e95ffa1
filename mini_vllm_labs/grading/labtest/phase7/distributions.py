"""Measures how often `rejection_sample` returns each token, with a grid or with 100,000 numbers and a chi-square test.

The grid's boundaries coincide with those of the distributions. So rounding does not affect the frequencies, and your
function is called only once for each set of arguments.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from types import ModuleType

import torch

from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase7.rejections import LAST_ROW, surplus
from mini_vllm_labs.grading.labtest.whole_numbers import list_of
from mini_vllm_labs.pictures.text import counted

NUM_DRAWS = 100_000
CHI_SQUARE_AT_0_1_PERCENT = {2: 13.816, 3: 16.266, 4: 18.467, 5: 20.515}
RULE_OF_SHARES = "Every token appears with the target's probability, whatever the drafter proposes."
HINT_OF_SHARES = (
    "a token is a kept draft or a replacement. How often is it each, in your code and in the handout's example?"
)


@dataclass(frozen=True)
class Distributions:
    """The drafter's row and the target's row, in integer parts.

    A random number is the midpoint of one of `num_keep` or `num_choose` equal parts.
    """

    drafter: tuple[int, ...]
    target: tuple[int, ...]
    num_keep: int
    num_choose: int

    def __post_init__(self) -> None:
        assert sum(self.drafter) == sum(self.target)
        left = sum(surplus(self.target, self.drafter))
        assert self.num_choose % left == 0, "the borders of the replacement lie on the grid"
        assert all(p >= q or self.num_keep * p % q == 0 for p, q in zip(self.target, self.drafter, strict=True))

    def describe(self) -> str:
        return f"drafter {list(self.drafter)}, target {list(self.target)}, in parts of {sum(self.target)}"


class Sampler:
    """Calls the learner's `rejection_sample` for one row, possibly after drafts that are always kept."""

    def __init__(self, phase7: ModuleType, distributions: Distributions, *, num_kept: int = 0) -> None:
        total = sum(distributions.target)
        one, vocab_size = [1.0] + [0.0] * (len(distributions.target) - 1), len(distributions.target)
        first = [[1 / vocab_size] * vocab_size] * num_kept
        self.place = len(first)
        self.draft_probs = torch.tensor([*first, [part / total for part in distributions.drafter]], dtype=torch.float64)
        target = [*first, [part / total for part in distributions.target], one]
        self.target_probs = torch.tensor(target, dtype=torch.float64)
        self.distributions = distributions
        self.phase7 = phase7
        self.token = cache(self._token)

    def _token(self, draft: int, keep: int, choose: int) -> int:
        """Return the token at the draft's position, for random numbers at the midpoints of two parts."""
        draws = [(0.4, 0.6)] * self.place
        draws.append(((keep + 0.5) / self.distributions.num_keep, (choose + 0.5) / self.distributions.num_choose))
        drafts = [*([2] * self.place), draft]
        answer = self.phase7.rejection_sample(drafts, self.draft_probs, self.target_probs, [*draws, (0.3, 0.7)])
        tokens = list_of(answer, "rejection_sample")
        return tokens[self.place] if self.place < len(tokens) else -1


def exact_shares(sampler: Sampler) -> dict[int, Fraction]:
    """Return each token's relative frequency over all drafts and all numbers in the grid."""
    given = sampler.distributions
    shares: defaultdict[int, Fraction] = defaultdict(Fraction)
    for draft, keep, choose in product(range(len(given.drafter)), range(given.num_keep), range(given.num_choose)):
        weight = Fraction(given.drafter[draft], sum(given.drafter) * given.num_keep * given.num_choose)
        if weight:
            shares[sampler.token(draft, keep, choose)] += weight
    return shares


def check_exact_shares(sampler: Sampler, what: str) -> None:
    """Fail unless the frequencies equal the target's probabilities."""
    given = sampler.distributions
    shares, total = exact_shares(sampler), sum(given.target)
    names = range(len(given.target))
    others = sum((share for token, share in shares.items() if token not in names), Fraction(0))
    yours = {f"token {token}": percent(shares.get(token, Fraction(0))) for token in names}
    expect_equal(
        yours | {"no token, or one that is none": percent(others)},
        {f"token {token}": percent(Fraction(given.target[token], total)) for token in names}
        | {"no token, or one that is none": percent(Fraction(0))},
        rule=RULE_OF_SHARES,
        situation=[what, given.describe(), f"share over all drafts and {given.num_keep} x {given.num_choose} draws"],
        hint="in the place of this draft your list has no token, or a different one. What do you return in this case?"
        if others
        else HINT_OF_SHARES,
    )


def check_chi_square(sampler: Sampler, seed: int, what: str) -> None:
    """Draw 100,000 drafts and random numbers; compare the token counts with the expected counts in a chi-square
    test."""
    given, rng = sampler.distributions, random.Random(seed)
    names, total = range(len(given.target)), sum(given.target)
    drafts = rng.choices(names, given.drafter, k=NUM_DRAWS)
    counts = Counter(
        sampler.token(draft, rng.randrange(given.num_keep), rng.randrange(given.num_choose)) for draft in drafts
    )
    expected = {token: NUM_DRAWS * part / total for token, part in enumerate(given.target) if part}
    chi_square = sum((counts[token] - number) ** 2 / number for token, number in expected.items())
    most = CHI_SQUARE_AT_0_1_PERCENT[len(expected) - 1]
    impossible = NUM_DRAWS - sum(counts[token] for token in expected)
    shown = f"more than {most}: {chi_square:.1f}"
    expect_equal(
        {
            "chi-square": shown if chi_square > most else f"at most {most}",
            "tokens that the target never says": impossible,
        },
        {"chi-square": f"at most {most}", "tokens that the target never says": 0},
        rule=RULE_OF_SHARES,
        situation=[
            what,
            given.describe(),
            f"{NUM_DRAWS:,} drafts; the target's counts would be {[round(expected.get(token, 0)) for token in names]}, "
            f"yours are {[counts[token] for token in names]}",
            f"a correct sampler exceeds a chi-square of {most} ({len(expected) - 1} degrees of freedom) once in 1,000 "
            "such tests, and not with these draws",
        ],
        hint=HINT_OF_SHARES,
    )


def check_last_shares(phase7: ModuleType, num_drafts: int) -> None:
    """Keep all drafts; compare the frequencies of the token that follows them with the target's last row."""
    parts, total = (3, 0, 5, 2), 10
    equal = [[1 / len(parts)] * len(parts)] * num_drafts
    target = torch.tensor([*equal, [part / total for part in parts]], dtype=torch.float64)
    counts: Counter[int] = Counter()
    lengths = set[int]()
    for number in range(2 * total):
        draws = [(0.3, 0.6)] * num_drafts + [(0.1, (number + 0.5) / (2 * total))]
        answer = phase7.rejection_sample([1] * num_drafts, target[:num_drafts].clone(), target.clone(), draws)
        tokens = list_of(answer, "rejection_sample")
        lengths.add(len(tokens))
        counts[[-1, *tokens][-1]] += 1
    yours = {f"token {token}": percent(Fraction(counts[token], 2 * total)) for token in range(len(parts))}
    right = {f"token {token}": percent(Fraction(part, total)) for token, part in enumerate(parts)}
    expect_equal(
        yours,
        right,
        rule=LAST_ROW,
        situation=f"{counted(num_drafts, 'draft')}, all kept; last row {list(parts)} in parts of {total}; share over "
        f"{2 * total} draws",
        hint="which of the last row's two draws do you use, and how do you choose a token with it?"
        if lengths == {num_drafts + 1}
        else "drafter and target have the same rows here: is any draft rejected, and how long is your list?",
    )


def percent(share: Fraction) -> str:
    return f"{float(share):.2%}"
