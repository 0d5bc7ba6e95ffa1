"""Pictures of electives 9 to 12 from runs outside the notebooks: a preemption, a large DFA, a refused text."""

from dataclasses import replace

from mini_vllm import EngineConfig
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import KVTransferConfig
from mini_vllm_labs.fresh.jobs import play_workload
from mini_vllm_labs.notebook import Notice, draw_transfers
from mini_vllm_labs.notebook.electives import MaskedText, hold_blocks, watch_masks
from mini_vllm_labs.notebook.truths import facts_of
from mini_vllm_labs.pictures.picture import Picture
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

CONFIG = EngineConfig(max_num_batched_tokens=32, max_model_len=32, block_size=4, num_gpu_blocks=7)


def test_a_preempted_request_holds_no_blocks_and_holds_some_again_until_they_are_sent() -> None:
    rivals = [TimedRequest(0, name, [ord(name)] * 8, max_tokens=9) for name in "AB"]
    host = replace(CONFIG, kv_transfer_config=KVTransferConfig("host"))
    run = play_workload(rivals, host, parse_lineup("solution:1-5,solution:10"))
    (victim,) = [record["preempted"][0][0] for record in run.recording.steps if record["preempted"]]
    picture = draw_transfers(run)
    assert isinstance(picture, Picture)
    assert f"{victim} is preempted, which frees 3 blocks" in picture.text_alternative
    assert f"{victim} has ended and holds" in picture.text_alternative
    assert facts_of([run])[0].num_preemptions == 1


def test_a_dfa_that_is_too_large_to_draw_is_a_notice() -> None:
    transitions = [{97: state + 1} for state in range(20)] + [dict[int, int]()]
    shown = watch_masks(MaskedText("a{20}", transitions, [20], 3, [("a", 0, ["a"])]))
    assert isinstance(shown, Notice)
    assert "It has 21 states, over 16." in str(shown)


def test_a_text_ends_where_the_pool_does() -> None:
    text = hold_blocks(1000, 32, 6, parse_lineup("solution:1-5,solution:12"))
    assert (len(text.held), text.held[-1], text.num_held(0), text.num_held(1)) == (48, 5, 3, 2)
