"""What requests leave behind: phases 7 and 8.

The calls are those that the graded tests count, too.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.classroom.judge.question import JudgeQuestion, question, short
from mini_vllm_labs.classroom.judge.script import Script
from mini_vllm_labs.classroom.worker.script import Call
from mini_vllm_labs.classroom.worker.upkeep import NUM_SHOWN
from mini_vllm_labs.grading.labtest.phase7.counters import drafted
from mini_vllm_labs.grading.labtest.support import make_request
from mini_vllm_labs.grading.labtest.work import NUM_REQUESTS

ComeAndGo = Callable[[Script], Callable[[str], object]]  # returns what records the calls about one request


def upkeep(rng: Random, phase: int, come_and_go: ComeAndGo) -> JudgeQuestion:
    """Ask what requests that come and go leave behind."""
    before, calls = recorded_halves(phase, come_and_go)
    shown = [f"{name}, for the first requests" for _, name, _ in before[:NUM_SHOWN]]
    return question(phase, "upkeep", phase, before, calls, shown=["what is left of the requests?", *shown])


def recorded_halves(phase: int, come_and_go: ComeAndGo) -> tuple[list[Call], list[Call]]:
    """Return the calls about some requests, and those about as many after them."""
    script = Script(phase)
    use = come_and_go(script)
    for number in range(NUM_REQUESTS):
        use(f"first {number}")
    num_calls = len(script.calls)
    for number in range(NUM_REQUESTS):
        use(f"then {number}")
    return script.calls[:num_calls], script.calls[num_calls:]


def looked_up(script: Script) -> Callable[[str], object]:
    def use(name: str) -> None:
        half, number = name.split()
        newest = int(number) + NUM_REQUESTS * (half == "then")
        script.functions.propose_by_lookup([newest, 3, newest], 2, 1, 3)

    return use


def with_drafts(script: Script) -> Callable[[str], object]:
    speculation = script.functions.SpeculativeScheduling(4, True)

    def use(name: str) -> None:
        request = drafted(3, 1, [5, 6], computed=6, name=name)
        speculation.num_lookahead_tokens(request)
        speculation.usable_hit_blocks([len(name), 3])
        speculation.roll_back(request, len(speculation.schedule_drafts(request)), 1)

    return use


def in_flight(script: Script) -> Callable[[str], object]:
    scheduling = script.functions.PlaceholderScheduling(2)

    def use(name: str) -> None:
        request = make_request(name, 3, num_computed_tokens=3, max_tokens=1)
        scheduling.take_placeholders(request, 0)
        scheduling.is_surely_over(request)
        share = ScheduledRequest(request, 3, 3, [1], needs_token=True, draft_token_ids=[-1, -1])
        script.functions.correct_share(share, 1, [7])
        scheduling.fill_placeholders(request, 1)

    return use


def lookup_reads(rng: Random) -> JudgeQuestion:
    size = rng.randrange(900, 1100)
    texts = [
        [*range(size)],
        [1] * (size - 1) + [2],
        [1, 2] * (size // 2) + [1, 1, 3],
        [5, 6, 7, *range(10, size), 5, 6, 7],
    ]
    return question(7, "reads", texts, shown=[f"how often each token of {short(str(text))} is read" for text in texts])


OF_LOOKUPS = partial(upkeep, phase=7, come_and_go=looked_up)
OF_DRAFTS = partial(upkeep, phase=7, come_and_go=with_drafts)
OF_PLACEHOLDERS = partial(upkeep, phase=8, come_and_go=in_flight)
