"""How many drafts a request gets. vLLM 0.13.0 has no such rule: there every request gets all of them, always."""

FADING = 0.8
"""What a step weighs in the estimate, compared with the step behind it."""
LONGEST_PAUSE = 32


class AdaptiveDraftLength:
    """How many drafts one request gets next: as many as pay, at most `most`; none for a while if not even one pays.

    Of each draft whose predecessors were right, a share a was right so far. A step with k drafts then brings
    1 + a + ... + a^k tokens and costs 1 + k * `cost_of_a_draft` steps; the k with the best ratio is taken
    (Leviathan 2023, section 3.3). Pauses last 1, 2, 4, ... up to 32 steps, until a draft pays again.
    """

    def __init__(self, most: int, cost_of_a_draft: float) -> None:
        self.most = most
        self.cost_of_a_draft = cost_of_a_draft
        # In favour of trying, but not of many drafts that are dear: nothing is known of the text yet.
        self.num_right, self.num_tried = 1.4, 2.0
        self.pause = 0
        self.next_pause = 1

    def next_length(self) -> int:
        """Return the most drafts for the next step, 0 in a pause. Called once for each step."""
        if self.pause > 0:
            self.pause -= 1
            return 0
        return max(1, self._best_length())

    def observe(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Note how many of the drafts of a step were accepted. There was at least one draft."""
        was_one_wrong = num_accepted_tokens < num_draft_tokens
        self.num_right = FADING * self.num_right + num_accepted_tokens
        self.num_tried = FADING * self.num_tried + num_accepted_tokens + was_one_wrong
        if self._best_length() > 0:
            self.next_pause = 1
        else:
            # A text that cannot be guessed often stays so: each try in vain doubles the time to the next one.
            self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LONGEST_PAUSE)

    def _best_length(self) -> int:
        return max(range(self.most + 1), key=self._tokens_per_cost)

    def _tokens_per_cost(self, length: int) -> float:
        share = self.num_right / self.num_tried
        return sum(share**position for position in range(length + 1)) / (1 + length * self.cost_of_a_draft)
