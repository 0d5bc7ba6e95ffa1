"""What calls cost among few things and among many, and what requests leave behind: phases 1, 3, 5, 7 and 8.

The calls are those that the graded tests count, too.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random

from classroom.judge.question import JudgeQuestion, question, short
from classroom.judge.questions.scheduling import apply, policy
from classroom.judge.script import Script
from classroom.worker.doubles import AnyShare, AnyVictim, LoggedMemory, Memory
from classroom.worker.script import Call
from classroom.worker.upkeep import NUM_SHOWN
from course.labtest.phase1.updates import EOS, Update, caught_up
from course.labtest.phase7.counters import drafted
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import make_request
from course.labtest.work import LONG, NUM_REQUESTS, SHORT
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest, SchedulerOutput

Cost = Callable[[Script, int], None]  # records calls among so many things; the last one counts
ComeAndGo = Callable[[Script], Callable[[str], object]]  # returns what records the calls about one request


def upkeep(
    rng: Random,
    phase: int,
    costs: Iterable[Cost] = (),
    leaks: Iterable[ComeAndGo] = (),
    *,
    are_forgotten_at_once: bool = True,
) -> JudgeQuestion:
    """Ask what the last call of each script of `costs` takes, and what the requests of each of `leaks` leave behind."""
    many = LONG + 10 * rng.randrange(9)
    sized = [[calls_among(phase, cost, size) for size in (SHORT, many, many + 62, many + 150)] for cost in costs]
    scripts, shown = [recorded_halves(phase, one) for one in leaks], list[str]()
    for few, *_ in sized:
        shown += [f"{names(few)}: does the last call do more with {many} than with {SHORT}?", *told(few)]
    for before, _ in scripts:
        shown += [f"{names(before)}: what is left of the requests?", *told(before[:NUM_SHOWN])]
    return question(phase, "upkeep", phase, sized, scripts, are_forgotten_at_once, shown=shown)


def told(calls: list[Call]) -> list[str]:
    return [f"{name}, among few" for _, name, _ in calls]


def calls_among(phase: int, cost: Cost, size: int) -> list[Call]:
    script = Script(phase)
    cost(script, size)
    return script.calls


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


def names(calls: list[Call]) -> str:
    return ", ".join(dict.fromkeys(name for _, name, _ in calls))


def update_among_waiting(script: Script, size: int) -> None:
    apply(script, Update([caught_up("A")], {"A": [EOS]}, waiting=[caught_up(f"w{number}") for number in range(size)]))


def admitted(script: Script) -> Callable[[str], object]:
    return lambda name: script.functions.schedule_step(
        [],
        StrictQueue([make_request(name, 4)]),
        max_num_seqs=8,
        max_num_batched_tokens=100,
        kv=LoggedMemory(4, [1, 2, 3]),
        preemption=AnyVictim(),
        chunks=AnyShare(is_generous=True),
    )


def ended(script: Script) -> Callable[[str], object]:
    return lambda name: apply(script, Update([caught_up(name)], {name: [EOS]}))


def left_the_queue(script: Script) -> Callable[[str], object]:
    queue, clock = script.functions.PriorityRequestQueue(), count()

    def use(name: str) -> None:
        first, second = (Request(one, [1], arrival_time=next(clock)) for one in (name, f"{name}, too"))
        for request in (first, second):
            queue.add_request(request)
        queue.pop_request()
        queue.remove_request(second)

    return use


def preempted(script: Script) -> Callable[[str], object]:
    preemption = script.functions.RecomputePreemption("fcfs")

    def use(name: str) -> None:
        needing, victim = (make_request(one, 4, num_computed_tokens=2) for one in (f"{name} needs", name))
        memory = Memory(2, [], {needing.request_id: [1], name: [2]})
        preemption.make_room(needing, 1, [needing, victim], StrictQueue(), SchedulerOutput(9), memory)

    return use


def asked_about(script: Script) -> Callable[[str], object]:
    chunks = policy(script, [0, 1000, True, True])

    def use(name: str) -> None:
        request, other = Request(name, [7] * 9), make_request("A", 4, num_computed_tokens=3)
        chunks.admits(request, [1], [other], Memory(4, [2, 3, 4], {"A": [1]}))
        chunks.num_new_tokens(request, 4, 100)
        chunks.should_sample(request, 9)

    return use


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


OF_PLANS = partial(upkeep, phase=1, leaks=[admitted])
OF_UPDATES = partial(upkeep, phase=1, costs=[update_among_waiting], leaks=[ended])
# A heap may keep a few until it is used the next time.
OF_PRIORITIES = partial(upkeep, phase=3, leaks=[left_the_queue], are_forgotten_at_once=False)
OF_VICTIMS = partial(upkeep, phase=3, leaks=[preempted])
OF_CHUNKS = partial(upkeep, phase=5, leaks=[asked_about])
OF_LOOKUPS = partial(upkeep, phase=7, leaks=[looked_up])
OF_DRAFTS = partial(upkeep, phase=7, leaks=[with_drafts])
OF_PLACEHOLDERS = partial(upkeep, phase=8, leaks=[in_flight])
