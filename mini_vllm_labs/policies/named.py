"""Maps names to policies, for command lines and notebooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mini_vllm.assembly.elective_parts import policy_classes_for
from mini_vllm.assembly.lineup import lineup_from_env
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm.electives.policy.scheduling_policy import PolicyClasses, SchedulingPolicy
from mini_vllm_labs.policies.around import DecodeFirst, PrefillFirst, StaticBatching
from mini_vllm_labs.policies.drafts_by_class import DraftsByClass
from mini_vllm_labs.policies.elastic_budget import BudgetController, ElasticBudget
from mini_vllm_labs.policies.feedback_queues import FeedbackQueues
from mini_vllm_labs.policies.joint_order import JointOrder
from mini_vllm_labs.policies.predictors import LengthRanker, noisy, oracle
from mini_vllm_labs.policies.priority import Ageing, Priority
from mini_vllm_labs.policies.quality_of_experience import QualityOfExperience
from mini_vllm_labs.policies.shortest_first import ShortestFirst
from mini_vllm_labs.policies.two_classes import TwoClasses
from mini_vllm_labs.policies.victims import CheapestVictim, LeastComputedFirst

OutputLengths = Mapping[str, int]  # true output lengths, keyed by request id, used only by predictors
SIGMA = 0.3  # for noisy predictions: two thirds of them are within a factor of 1.35


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy's description in one sentence, and a function that creates a new instance for a run."""

    text: str
    make: Callable[[OutputLengths], SchedulingPolicy]

    @property
    def is_written(self) -> bool:
        """Whether `make` works; without the solutions, `vtc` and `least-slack` must be the learner's."""
        try:
            self.make({})
        except NotImplementedError:
            return False
        return True


def phase13() -> PolicyClasses:
    """Return phase 13's policies: from `LAB_IMPL` if set, otherwise the reference's, otherwise the learner's.

    The function is called only when a policy is created, so that a learner's broken file does not break the other
    policies.
    """
    chosen = policy_classes_for(lineup_from_env().policies)
    classes = chosen or policy_classes_for("solution" if solutions_exist() else "starter")
    assert classes is not None
    return classes


POLICIES: dict[str, NamedPolicy] = {
    "fcfs": NamedPolicy("first come, first served", lambda lengths: SchedulingPolicy()),
    "priority": NamedPolicy("the lowest priority first, then the earliest", lambda lengths: Priority()),
    "sjf": NamedPolicy(
        "the shortest output first, if lengths were known", lambda lengths: ShortestFirst(oracle(lengths))
    ),
    "sjf-noisy": NamedPolicy(
        "the shortest output first, by guesses of its length",
        lambda lengths: ShortestFirst(noisy(lengths, SIGMA)),
    ),
    "sjf-ranked": NamedPolicy(
        "the shortest output first, by a ranker trained on the embedded model's answers",
        lambda lengths: ShortestFirst(LengthRanker.trained()),
    ),
    "srtf": NamedPolicy(
        "the same with known lengths, and a shorter request takes the seat of a longer one",
        lambda lengths: ShortestFirst(oracle(lengths), preempts=True),
    ),
    "feedback-queues": NamedPolicy(
        "a request that has been served for long sinks a level (FastServe)", lambda lengths: FeedbackQueues()
    ),
    "least-slack": NamedPolicy(
        "the nearest deadline first, less the time it takes", lambda lengths: phase13().least_slack_first()
    ),
    "two-classes": NamedPolicy("the urgent first, with a quarter of each step reserved", lambda lengths: TwoClasses()),
    "vtc": NamedPolicy("the tenant served least goes first", lambda lengths: phase13().virtual_token_counter()),
    "ageing": NamedPolicy("priority, better by a level for every 5 s since arrival", lambda lengths: Ageing()),
    "joint-order": NamedPolicy(
        "priority, and waiting requests take seats of running ones", lambda lengths: JointOrder(Priority())
    ),
    "two-classes-preempting": NamedPolicy(
        "the same as two-classes, and the urgent take seats", lambda lengths: TwoClasses(preempts=True)
    ),
    "andes": NamedPolicy(
        "the most quality of experience gained per block first", lambda lengths: QualityOfExperience()
    ),
    "decode-first": NamedPolicy("decodes take the budget before prompts", lambda lengths: DecodeFirst()),
    "prefill-first": NamedPolicy("decodes sit out while a prompt can be computed", lambda lengths: PrefillFirst()),
    "least-computed-victim": NamedPolicy("preempts what has the least computed", lambda lengths: LeastComputedFirst()),
    "cheapest-victim": NamedPolicy("preempts what costs least per block freed", lambda lengths: CheapestVictim()),
    "drafts-by-class": NamedPolicy(
        "many drafts for urgent requests, few for the rest (AdaServe); fcfs without drafts",
        lambda lengths: DraftsByClass(),
    ),
    "static": NamedPolicy("a new batch only when the last one is done", lambda lengths: StaticBatching()),
    "budget-controller": NamedPolicy(
        "a budget that shrinks when first tokens come late", lambda lengths: BudgetController()
    ),
    "elastic-budget": NamedPolicy(
        "a quarter of the budget while requests wait, all of it when none does", lambda lengths: ElasticBudget()
    ),
}


def find_policy(name: str) -> NamedPolicy:
    """Return the policy called `name`. Raises a `ValueError` that lists the names if there is no such policy."""
    if name not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {name!r}")
    return POLICIES[name]
