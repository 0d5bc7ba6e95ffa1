"""What is done with a learner's functions outside of an engine. Plain data in, plain data out.

The judge runs the same drivers on the reference. What raises is noted by the exception's name.
"""

from collections.abc import Callable
from typing import cast

from classroom.worker.drivers import phase1, phase2, phase3, phase4, phase5, phase6, phase7, phase8
from classroom.worker.drivers.attempt import Result

OF_PHASE = (
    (phase1.clamp, phase1.update_from_output),
    (phase2.free_queue, phase2.block_pool, phase2.block_tables),
    (phase3.priority_queue, phase3.choose_victim, phase3.make_room),
    (phase4.hash_block, phase4.prefix_cache),
    (phase5.num_new_tokens, phase5.should_sample, phase5.admits),
    (phase6.batch_rows, phase6.batch_places, phase6.write_kv, phase6.paged_attention, phase6.sample),
    (phase6.kv_memory, phase6.flat_batch_function),
    (phase7.propose_by_lookup, phase7.schedule_drafts, phase7.roll_back, phase7.drafter_slots),
    (phase7.logits_rows, phase7.accept_drafts, phase7.rejection_sample),
    (phase8.placeholders, phase8.last_steps, phase8.own_stand_ins, phase8.correct_share),
)
DRIVERS: dict[str, Callable[..., Result]] = {
    driver.__name__: cast(Callable[..., Result], driver) for drivers in OF_PHASE for driver in drivers
}
