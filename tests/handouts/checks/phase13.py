"""Functions for the `<!-- check: ... -->` comments in the phase 13 handout."""

from labs.phase13_scheduling_policies.runs import Run, asked
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from solutions.phase13_scheduling_policies import MyPolicy, VirtualTokenCounter

FIRST_COME, FAIR = MyPolicy, VirtualTokenCounter


def waits(policy: type[SchedulingPolicy]) -> list[float]:
    """Return the seconds from b's arrival to its first token, and the seconds until all requests are served."""
    requests = [asked(f"a{number}", 10, 10, tenant="a") for number in range(100)] + [asked("b", 10, 10, 0.05, "b")]
    served = Run(policy(), requests).served
    return [round(served.times_to_first_token[-1], 2), round(served.seconds, 2)]
