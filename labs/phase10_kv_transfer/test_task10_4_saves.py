"""Graded tests of task 10.4: the blocks that a step saves."""

from types import ModuleType

import pytest

from course.labtest import phase10_plays
from course.labtest.case_table import cases, check
from course.labtest.cost import check_keeps_nothing
from course.labtest.recorded import Answers
from mini_vllm.core.request import Request, RequestStatus


@pytest.mark.parametrize("name", cases(phase10_plays, 4))
def test_saves(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 4, name)


def test_of_ended_requests_nothing_is_kept(phase10: ModuleType) -> None:
    store = phase10_plays.GivenStore({})
    connector = phase10.BlockStoreConnector(store, 4)

    def use(name: str) -> Request:
        request = phase10_plays.request_of(name, 12, 4)
        connector.get_num_new_matched_tokens(request, 0)
        if name[-1] in "02468":
            connector.update_state_after_alloc(request, [7, 5, 9], 0)
            request.num_computed_tokens, request.status = 11, RequestStatus.FINISHED_STOPPED
        else:  # it never ran
            request.status = RequestStatus.FINISHED_ABORTED if name[-1] in "135" else RequestStatus.FINISHED_ERROR
        connector.request_finished(request, [7, 5, 9])
        connector.build_connector_meta()
        return request

    rule = "Of a request that has ended a connector keeps nothing, once the step is told what to save."
    hint = "what does your connector note of a request, in which calls, and what takes it out if it is never admitted?"
    check_keeps_nothing(phase10, use, connector, what="requests that are asked about and end", rule=rule, hint=hint)
