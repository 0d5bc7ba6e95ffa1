"""Computes facts for questions about a picture, policies, and the users of a simulated server."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.run_facts import first
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.pictures.policy_comparison import PolicyResult
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.simulation.served import Served, Slo


@dataclass(frozen=True)
class PictureFacts:
    """Facts about a picture that was computed for a question."""

    picture: Picture

    def hit(self, prompt: str) -> int:
        """Return how many of a prompt's tokens are hits in a picture of hash chains."""
        found = re.findall(rf"^ *{prompt} finds: hit (\d+)", self.picture.text_alternative, re.MULTILINE)
        return int(first(found))

    def total(self, place: int) -> float:
        return float(self.picture.sentence.split(". ")[0].split(", ")[place].split()[-2])


@dataclass(frozen=True)
class PolicyFacts:
    """Facts about the same requests served under each policy."""

    results: Sequence[PolicyResult]

    def best_at(self, percent: float) -> str:
        """Return the policy with the smallest value of a percentile of the time to first token."""
        return min(self.results, key=lambda result: result.time_to_first_token(percent)).policy

    def worst_at(self, percent: float) -> str:
        """Return the policy with the largest value of a percentile of the time to first token."""
        return max(self.results, key=lambda result: result.time_to_first_token(percent)).policy

    def goodput(self, policy: str) -> float:
        """Return the requests per second that meet the SLO under a policy."""
        return goodput_of(policy, self.results)


def goodput_of(policy: str, results: Sequence[PolicyResult]) -> float:
    """Return the requests per second that meet the SLO under a policy."""
    return next(result.served.goodput(Slo()) for result in results if result.policy == policy)


@dataclass(frozen=True)
class ByUser:
    """Simulated requests, each with its user."""

    served: Served
    users: Sequence[int]

    @classmethod
    def of(cls, served: Served | Notice, users: Sequence[int]) -> "ByUser | Notice":
        return served if isinstance(served, Notice) else cls(served, users)

    def wait_of(self, user: int, percent: float = 95) -> float:
        """Return a percentile of a user's time to first token, in seconds."""
        times = zip(self.served.times_to_first_token, self.users, strict=True)
        return percentiles([time for time, owner in times if owner == user], [percent])[0]

    def compared(self, user: int, other: int) -> str:
        """Describe a user's wait in comparison with another user's."""
        ratio = self.wait_of(user) / self.wait_of(other)
        near = f"about as long as user {other}" if ratio < 2 else "at least twice as long"
        return f"at most half as long as user {other}" if ratio <= 0.5 else near
