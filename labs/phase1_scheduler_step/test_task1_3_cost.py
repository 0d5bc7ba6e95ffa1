"""Graded tests of task 1.3: what admitting a request costs, and what is left of it."""

from types import ModuleType

import pytest

from course.labtest.cost import check_keeps_nothing
from course.labtest.expect import expect_equal
from course.labtest.phase1.cases import decoding
from course.labtest.phase1.situations import Scene, Situation
from course.labtest.support import make_request
from mini_vllm.core.request import Request


@pytest.mark.parametrize(("num_admitted", "most"), [(300, 20 * 300), (2, 60)])
def test_admission_costs_the_same_for_each_request(phase1: ModuleType, num_admitted: int, most: int) -> None:
    waiting = [make_request(f"r{number}", 1) for number in range(300)]
    scene = Scene(Situation([decoding("R")], waiting, max_num_seqs=num_admitted + 1))
    scene.take_step(phase1)
    expect_equal(
        {"admitted": len(scene.running) - 1, f"at most {most} uses of the queue": scene.waiting.cost <= most},
        {"admitted": num_admitted, f"at most {most} uses of the queue": True},
        rule="Admitting a request takes a few uses of the queue, however many requests wait. Each request that an "
        "iteration yields counts as a use.",
        situation=[
            f"300 requests wait, there is budget and memory for all of them, and seats for {num_admitted}",
            f"your code used the queue {scene.waiting.cost} times",
        ],
        hint="where does your code go through the whole queue?"
        if len(scene.running) == num_admitted + 1
        else "which of your conditions ends admission, and how many requests are admitted by then?",
    )


def test_steps_leave_nothing_behind(phase1: ModuleType) -> None:
    def use(name: str) -> Request:
        request = make_request(name, 4)
        Scene(Situation([decoding("R")], [request], hits={name: [3, 2]}, evictions={"R": ["R"]})).take_step(phase1)
        return request

    check_keeps_nothing(
        phase1,
        use,
        what="requests were admitted, each in a step of its own",
        rule="What a step decides is in the plan and in the requests. Your file remembers no request: a server would "
        "never forget it.",
        hint="which list, dict or set outside of the function does a step add to?",
    )
