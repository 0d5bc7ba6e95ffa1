"""A request as a line of tokens, and the steps that compute it: slow, without any counter, and obviously right.

A token in the line is known, or expected of a step in flight. Each is computed or not.
"""

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Token:
    """One place in the line."""

    known: bool
    computed: bool = False


class LineOfTokens:
    """One request whose steps are planned before the results of the one before are there."""

    def __init__(self, num_prompt: int, max_tokens: int, num_speculative_tokens: int) -> None:
        self.line = [Token(known=True) for _ in range(num_prompt)]
        self.num_places = num_prompt + max_tokens
        self.num_speculative_tokens = num_speculative_tokens
        self.num_stand_ins = 0
        self.in_flight: deque[list[Token]] = deque()
        self.waits = True

    @property
    def num_known(self) -> int:
        return len([token for token in self.line if token.known])

    @property
    def num_expected(self) -> int:
        return len(self.line) - self.num_known

    @property
    def num_computed(self) -> int:
        return len([token for token in self.line if token.computed])

    @property
    def is_full(self) -> bool:
        """Whether all tokens that the request may have are known."""
        return self.num_known >= self.num_places

    @property
    def will_be_full(self) -> bool:
        """Whether they are known once the in-flight step returns its minimum of one token."""
        brings = any(self.in_flight)
        return brings and self.num_known + 1 >= self.num_places

    def plan(self, budget: int) -> tuple[int, int]:
        """Plan a step; return (tokens, drafts among them). A step of 0 tokens brings nothing."""
        wanted = [token for token in self.line if not token.computed and (token.known or not self.waits)]
        num_drafts_wanted = 0 if self.waits else self.num_stand_ins
        if self.will_be_full or budget == 0:
            self.in_flight.append([])
            return 0, 0
        self.waits = False
        for token in wanted[:budget]:
            token.computed = True
        num_drafts = max(0, min(num_drafts_wanted, budget - len(wanted)))
        brings: list[Token] = []
        if all(token.computed for token in self.line):
            brings = [Token(known=False, computed=True) for _ in range(num_drafts)] + [Token(known=False)]
            self.line += brings
            self.num_stand_ins = self.num_speculative_tokens
        self.in_flight.append(brings)
        return min(len(wanted), budget) + num_drafts, num_drafts

    def update(self, num_accepted: int) -> int:
        """Bring the results of the oldest step in flight; return how many tokens they are."""
        brings = self.in_flight.popleft()
        if not brings:
            return 0
        rejected = brings[num_accepted:-1]
        self.line = [token for token in self.line if token not in rejected]
        for token in brings:
            token.known = True
        return num_accepted + 1

    def preempt(self) -> None:
        """Lose what is computed and the drafts. The results of steps in flight are still to come."""
        self.waits, self.num_stand_ins = True, 0
        for token in self.line:
            token.computed = False
