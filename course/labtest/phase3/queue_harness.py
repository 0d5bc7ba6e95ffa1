"""A priority queue of yours, and what was done with it. Nothing here is to be filled in."""

from collections.abc import Sequence
from types import ModuleType

from course.labtest.crash_hints import CrashHint, learners_call
from course.labtest.expect import expect_equal
from course.labtest.support import make_request
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request

ITERATION = (
    "Iteration goes in service order, as popping does, and takes nothing out.",
    "popping gives the right order here, and going through the queue does not. Which order does each of them follow: "
    "that of the list inside, or that of the ranks?",
)
FIRST_ONE = (
    "peek_request and pop_request take the most urgent request, which is the one that iteration begins with.",
    "iteration gives the right order here, and peek_request another request. Where does each of them look, and after "
    "which of the calls above do these differ?",
)
OTHER_OBJECTS = (
    "The queue returns the request that was put in, not a copy and not a tuple around it.",
    "which part of your entry is the request?",
)
OTHER_REQUESTS = (
    "The queue holds what was put in and not taken out again, each request once.",
    "here {what}. Which of the calls above put in, or took out, more or another one than it should?",
)
LOOKING = (
    "Looking takes nothing out: the length after an iteration is the length before it.",
    "your iteration gave all requests, and the length after it is another number. What does your code count, and what "
    "does going through the queue leave?",
)
QUEUE_HINTS = (
    CrashHint(
        TypeError,
        "two entries were equal up to the requests themselves, which have no order. What of a request decides between "
        "those two, and where does it stand in your entry?",
        word="instances of 'Request' and 'Request'",
    ),
)


def rank(request: Request) -> str:
    """Return a request as `A(priority 1, arrived 0.5)`."""
    return f"{request.request_id}(priority {request.priority}, arrived {request.arrival_time:.12g})"


class QueueHarness:
    """Your priority queue and what was done with it."""

    def __init__(self, phase3: ModuleType) -> None:
        self.story: list[str] = ["queue = PriorityRequestQueue()"]
        self._added: dict[str, Request] = {}
        with learners_call(self.story, QUEUE_HINTS):
            self.queue: RequestQueue = phase3.PriorityRequestQueue()

    def add(self, *requests: Request) -> None:
        for request in requests:
            self._added[request.request_id] = request
            self.story.append(f"add_request({rank(request)})")
            with learners_call(self.story, QUEUE_HINTS):
                self.queue.add_request(request)

    def prepend(self, request: Request) -> None:
        self._added[request.request_id] = request
        self.story.append(f"prepend_request({rank(request)})")
        with learners_call(self.story, QUEUE_HINTS):
            self.queue.prepend_request(request)

    def remove(self, request: Request) -> None:
        self.story.append(f"remove_request({request.request_id})")
        with learners_call(self.story, QUEUE_HINTS):
            self.queue.remove_request(request)

    def use_another(self) -> None:
        """Make a second queue and leave a request in it."""
        self.story.append("another queue is made: add_request(Z(priority -9, arrived 0)) there")
        with learners_call(self.story, QUEUE_HINTS):
            type(self.queue)().add_request(make_request("Z", 4, priority=-9))

    def pop(self) -> Request:
        self.story.append("pop_request()")
        with learners_call(self.story, QUEUE_HINTS):
            request = self.queue.pop_request()
        self.story[-1] += f" -> {self.name(request)}"
        return request

    def state(self) -> dict[str, object]:
        """Return order, length and head of the queue."""
        with learners_call(self.story, QUEUE_HINTS):
            return {
                "order": [self.name(request) for request in self.queue],
                "length": len(self.queue),
                "peek_request": self.name(self.queue.peek_request()) if len(self.queue) else None,
            }

    def check(self, rule: str, hint: str, names: Sequence[str]) -> None:
        """Compare the state of the queue, then pop everything and compare the order."""
        expected, before = expected_state(names), list(self.story)
        yours = self.state()
        popped = [self.name(self.pop()) for _ in names] if yours["length"] == len(names) else []
        rule, hint = self.symptom(yours, popped, names) or (rule, hint)
        expect_equal(yours, expected, rule=rule, situation=before, hint=hint)
        expect_equal(
            {"popped, in order": popped, "length": len(self.queue)},
            {"popped, in order": list(names), "length": 0},
            rule=rule,
            situation=self.story,
            hint=hint,
        )

    def symptom(self, yours: dict[str, object], popped: list[object], names: Sequence[str]) -> tuple[str, str] | None:
        """Return (rule, hint) if what differs has a cause of its own."""
        order = yours["order"]
        assert isinstance(order, list)
        if any(str(name).startswith(("copy of", "a ")) for name in order):
            return OTHER_OBJECTS
        lacks, has = [name for name in names if name not in order], [name for name in order if name not in names]
        if lacks or has:
            texts = [f"{' and '.join(lacks)} is missing"] if lacks else []
            texts += [f"{' and '.join(has)} is there"] if has else []
            return OTHER_REQUESTS[0], OTHER_REQUESTS[1].format(what=", and ".join(texts))
        if popped == list(names) and order != popped:
            return ITERATION
        if order == list(names) and yours["length"] != len(names):
            return LOOKING
        if order == list(names) and names and yours["peek_request"] != names[0]:
            return FIRST_ONE
        return None

    def name(self, request: object) -> object:
        """Return the name of a request that was put in; say so if it is another object."""
        if not isinstance(request, Request):
            return f"a {type(request).__name__}"
        return request.request_id if self._added.get(request.request_id) is request else f"copy of {request.request_id}"


def expected_state(names: Sequence[str]) -> dict[str, object]:
    """Return the state of a queue with these names in service order."""
    return {"order": list(names), "length": len(names), "peek_request": names[0] if names else None}
