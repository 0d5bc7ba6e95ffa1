"""What decides the cards about schedules, in the facts of their runs, by the titles of the cards."""

from course.notebook.claims.claim import Decision
from course.notebook.run_facts import RunFacts
from mini_vllm.core.cdiv import cdiv


def victim(run: RunFacts) -> str:
    """Return the first victim, or that there is none."""
    return run.preempted(run.first_preemption())[0] if run.num_preemptions else "neither"


def takes_what_is_missing(run: RunFacts) -> bool:
    """Return whether each allocation takes the blocks of all tokens so far, less those held already."""
    size = run.recording.info.block_size
    shares = [share for record in run.recording.steps for share in record["scheduled"]]
    return all(len(share["blocks"]) == cdiv(share["computed"] + share["n"], size) for share in shares)


DECISIONS: dict[str, Decision] = {
    "All work is lost": Decision(lambda run: run.hit_of("B") == 0, lambda run: run.resumed("B")),
    "An urgent arrival preempts": Decision(lambda run: run.num_preemptions > 0, lambda run: 3),
    "Equals are safe": Decision(victim, lambda run: 1),
    "First to go, first to come back": Decision(
        lambda run: "B" if run.resumed("B") < run.admitted("C") else "C", lambda run: run.first_preemption() + 1
    ),
    "A step with a preemption admits no request": Decision(
        lambda run: run.admitted("C") != run.first_preemption(), lambda run: run.first_preemption()
    ),
    "Ten is more than one": Decision(lambda run: min("AB", key=run.admitted)),
    "Decodes go first": Decision(lambda run: run.scheduled(1)[0] == "B", lambda run: 1),
    "The queue is long": Decision(
        lambda small, large: all(large.admitted(name) >= small.admitted(name) for name in "ABCDE"), lambda run: 2
    ),
    "A hundred tokens, five blocks": Decision(
        lambda run: len(run.blocks_of("A", run.last_step)), lambda run: run.holds("A", 2)
    ),
    "One call, few blocks": Decision(takes_what_is_missing, lambda run: run.holds("A", 2)),
    "Fifteen thousand six hundred and twenty-five": Decision(lambda run: run.most_at_once),
    "Shared in the same step": Decision(lambda run: run.admitted("B") == 0 and run.hit_of("B") > 0),
    "A full hit costs one token": Decision(
        lambda run: run.tokens_of("B", run.admitted("B")) == 1, lambda run: run.admitted("B")
    ),
    "Shared is shared": Decision(lambda run: run.tokens_of("B", run.admitted("B")), lambda run: run.admitted("B")),
    "The tail goes first": Decision(
        lambda run: run.blocks_of("B", 2) == run.blocks_of("A", 0)[:1:-1] and run.hit_of("C") > 0, lambda run: 2
    ),
    "Without a threshold there are no chunks": Decision(lambda run: run.tokens_of("A", 0) == 0),
    "A threshold above the budget": Decision(
        lambda high, none, low: high.recording.steps == none.recording.steps, lambda run: run.first_token("B")
    ),
    "Settings never change the text": Decision(lambda roomy, tight: roomy.run.token_ids == tight.run.token_ids),
}
