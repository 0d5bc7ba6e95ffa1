"""The policies by name, for command lines and notebooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from policies.ageing import Ageing
from policies.budget_controller import BudgetController
from policies.decode_or_prefill_first import DecodeFirst, PrefillFirst
from policies.feedback_queues import FeedbackQueues
from policies.joint_order import JointOrder
from policies.least_slack import LeastSlack
from policies.length_ranker import LengthRanker
from policies.predictors import noisy, oracle
from policies.priority import Priority
from policies.quality_of_experience import QualityOfExperience
from policies.shortest_first import ShortestFirst
from policies.static_batches import StaticBatches
from policies.two_classes import TwoClasses
from policies.victims import CheapestVictim, LeastComputedFirst
from policies.virtual_token_counter import VirtualTokenCounter

OutputLengths = Mapping[str, int]  # the true length of each output, by request id: for predictors alone


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """What a policy does in one sentence, and how a fresh one is made for a run."""

    text: str
    make: Callable[[OutputLengths], SchedulingPolicy]


POLICIES: dict[str, NamedPolicy] = {
    "fcfs": NamedPolicy("first come, first served", lambda lengths: SchedulingPolicy()),
    "priority": NamedPolicy("the lowest priority first, then the earliest", lambda lengths: Priority()),
    "ageing": NamedPolicy("priority, improved by one level for every 5 s since arrival", lambda lengths: Ageing()),
    "joint-order": NamedPolicy(
        "priority, and waiting requests take slots of running ones", lambda lengths: JointOrder(Priority())
    ),
    "sjf": NamedPolicy(
        "the shortest remaining output first, with the true lengths", lambda lengths: ShortestFirst(oracle(lengths))
    ),
    "sjf-noisy": NamedPolicy(
        "the same with predictions that are wrong by a factor", lambda lengths: ShortestFirst(noisy(lengths))
    ),
    "sjf-ranked": NamedPolicy(
        "the same by a ranker that was trained on the embedded model's answers",
        lambda lengths: ShortestFirst(LengthRanker.trained()),
    ),
    "srtf": NamedPolicy(
        "the shortest remaining output first, and it takes a slot of a longer one",
        lambda lengths: ShortestFirst(oracle(lengths), preempts=True),
    ),
    "feedback-queues": NamedPolicy(
        "later levels for long prompts and for requests that have generated much (FastServe)",
        lambda lengths: FeedbackQueues(),
    ),
    "least-slack": NamedPolicy("the promise that must be kept soonest first", lambda lengths: LeastSlack()),
    "two-classes": NamedPolicy("urgent requests first, with a share of the budget", lambda lengths: TwoClasses()),
    "two-classes-preempting": NamedPolicy(
        "the same, and urgent requests take slots of normal ones", lambda lengths: TwoClasses(preempts=True)
    ),
    "vtc": NamedPolicy("the tenant that has been served least first", lambda lengths: VirtualTokenCounter()),
    "andes": NamedPolicy(
        "the largest gain in quality of experience per KV block first", lambda lengths: QualityOfExperience()
    ),
    "decode-first": NamedPolicy("decodes take the budget before prompts", lambda lengths: DecodeFirst()),
    "prefill-first": NamedPolicy("decodes sit out while a prompt can be computed", lambda lengths: PrefillFirst()),
    "least-computed-victim": NamedPolicy(
        "preempts the request with the fewest computed tokens", lambda lengths: LeastComputedFirst()
    ),
    "cheapest-victim": NamedPolicy(
        "preempts the request with the fewest tokens to recompute per block", lambda lengths: CheapestVictim()
    ),
    "static": NamedPolicy("a new batch only when the last one is done", lambda lengths: StaticBatches()),
    "budget-controller": NamedPolicy(
        "a budget that shrinks when first tokens come late", lambda lengths: BudgetController()
    ),
}
