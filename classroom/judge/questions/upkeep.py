"""What calls cost among few things and among many, and what requests leave behind: phases 4, 7 and 8.

The calls are those that the graded tests count, too.
"""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from classroom.judge.question import JudgeQuestion, question, short
from classroom.judge.script import Script
from classroom.worker.doubles import TouchLog
from classroom.worker.script import Call
from classroom.worker.upkeep import NUM_SHOWN
from course.labtest.phase4 import work as phase4
from course.labtest.phase7.counters import drafted
from course.labtest.support import make_request
from course.labtest.work import LONG, NUM_REQUESTS, SHORT
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest

NUM_ADMISSIONS = 600
LARGE_PROMPT = [7] * 600_000

# Records calls among so many things; the last one counts. Returns what its work is divided by, if that is more than 1.
Cost = Callable[[Script, int], int | None]
ComeAndGo = Callable[[Script], Callable[[str], object]]  # returns what records the calls about one request


def upkeep(
    rng: Random,
    phase: int,
    costs: Iterable[Cost] = (),
    leaks: Iterable[ComeAndGo] = (),
) -> JudgeQuestion:
    """Ask what the last call of each script of `costs` takes, and what the requests of each of `leaks` leave behind."""
    many = LONG + 10 * rng.randrange(9)
    sized = [[sized_script(phase, cost, size) for size in (SHORT, many, many + 62, many + 150)] for cost in costs]
    scripts, shown = [recorded_halves(phase, one) for one in leaks], list[str]()
    for (few, _), *_ in sized:
        shown += [f"{names(few)}: does the last call do more with {many} than with {SHORT}?", *told(few)]
    for before, _ in scripts:
        shown += [f"{names(before)}: what is left of the requests?", *told(before[:NUM_SHOWN])]
    return question(phase, "upkeep", phase, sized, scripts, shown=shown)


def told(calls: list[Call]) -> list[str]:
    return [f"{name}, among few" for _, name, _ in calls if not name.startswith(".")]


def sized_script(phase: int, cost: Cost, size: int) -> tuple[list[Call], int]:
    """Return a script, and what the work of its last call is divided by."""
    script = Script(phase)
    divisor = cost(script, size) or 1
    return script.calls, divisor


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
    return ", ".join(dict.fromkeys(name.lstrip(".") for _, name, _ in calls))


def cache_call(script: Script, size: int, call: str) -> int:
    cache, cached, new = phase4.filled(script.functions, size)
    if call == "hit_rate":
        script.look(cache, call)
    else:
        phase4.CALLS[call](cache, cached, new)
    return size if call.endswith("per block") else 1


def cached(script: Script, way_out: str) -> Callable[[str], object]:
    cache = script.functions.HashPrefixCache(4)

    def use(name: str) -> None:
        request, aborted = (
            Request(name, [*name.encode()[-4:]] * 4, cache_salt=salt) for salt in (name, f"{name}, too")
        )
        for one in (aborted, request):
            cache.update_block_hashes(one)
            cache.find_longest_cache_hit(one)
        cache.pin(request, [], TouchLog())
        for block_id in (8, 7):
            cache.evict(block_id) if way_out == "evict" else cache.drop_uncomputed([block_id])
        cache.cache_full_blocks(request, [7], 0, 1)
        cache.cache_full_blocks(request, [8], 0, 1)

    return use


def admissions(script: Script) -> Callable[[str], object]:
    """Admit few tokens many times, of which those at first were hits; then very many tokens, and a hit again."""
    cache, request = script.functions.HashPrefixCache(4), Request("again", [1] * 9)

    def use(name: str) -> None:
        half, number = name.split()
        for _ in range(NUM_ADMISSIONS // NUM_REQUESTS):
            cache.pin(request, [1, 2] if half == "first" else [], TouchLog())
        if half == "then" and int(number) >= NUM_REQUESTS - 2:
            cache.pin(Request(name, LARGE_PROMPT), [], TouchLog())
        if half == "then" and int(number) == NUM_REQUESTS - 1:
            cache.pin(request, [*range(1, 900)], TouchLog())

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


def calls_of(function: Callable[..., int | None], calls: Iterable[object]) -> list[Cost]:
    return [partial(function, call=call) for call in calls]


OF_HITS = partial(upkeep, phase=4, costs=calls_of(cache_call, phase4.CALLS), leaks=[admissions])
OF_EVICTIONS = partial(upkeep, phase=4, leaks=[partial(cached, way_out=way) for way in ("evict", "drop")])
OF_LOOKUPS = partial(upkeep, phase=7, leaks=[looked_up])
OF_DRAFTS = partial(upkeep, phase=7, leaks=[with_drafts])
OF_PLACEHOLDERS = partial(upkeep, phase=8, leaks=[in_flight])
