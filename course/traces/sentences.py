"""What happened in a step, in words."""

from course.traces.run_state import RunState
from mini_vllm.core.step_record import ScheduledRecord, StepRecord

MOST_SENTENCES = 3


def describe_step(state: RunState) -> str:
    """Return what is worth knowing about the current step: the rarest things first, at most three."""
    if (record := state.record) is None:
        return "Nothing has happened yet."
    told = [*preempted(state, record), *admitted(state, record), *chunks(state, record), *finished(state, record)]
    if not told:
        told = [everyday(state, record)]
    return " ".join(told[:MOST_SENTENCES])


def names(state: RunState, request_ids: list[str]) -> str:
    """Return the letters of some requests as a list in words."""
    letters = [state.info.label(request_id) for request_id in request_ids]
    return " and ".join(filter(None, [", ".join(letters[:-1]), letters[-1] if letters else ""]))


def preempted(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for each preemption."""
    told = []
    for victim, cause, _ in record["preempted"]:
        loser, winner = state.info.label(victim), state.info.label(cause)
        if victim == cause:
            told.append(f"{loser} needs a block and none is free. It is itself the one to give way, and is preempted.")
        else:
            place = "at the front of the queue" if is_in_front(record, victim) else "at its place in the queue"
            told.append(f"{winner} needs a block and none is free, so {loser} is preempted and waits {place}.")
    return told


def is_in_front(record: StepRecord, victim: str) -> bool:
    """Return whether nobody but other victims of this step waits before a victim."""
    victims = {request_id for request_id, *_ in record["preempted"]}
    waiting = record["waiting_after"]
    return victim not in waiting or victims.issuperset(waiting[: waiting.index(victim)])


def admitted(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for each request that was let in, and one for those without a hit together."""
    told, plain = [], []
    for share in record["scheduled"]:
        if share["kind"] == "running":
            continue
        known, hit = state.num_known[share["id"]], share.get("hit", 0)
        who = f"{state.info.label(share['id'])} {'comes back' if share['kind'] == 'resumed' else 'comes in'}"
        if hit:
            told.append(f"{who}: {hit} of its {known} tokens are in the prefix cache.")
        elif share["kind"] == "resumed":
            told.append(f"{who} and computes its {known} tokens again.")
        else:
            plain.append(share["id"])
    if plain:
        told.append(f"{names(state, plain)} {'come' if len(plain) > 1 else 'comes'} in.")
    return told


def chunks(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for the first prompt that this step computes a part of."""
    cut = [share for share in record["scheduled"] if is_chunk(state, share)]
    if not cut:
        return []
    end, known = cut[0]["computed"] + cut[0]["n"], state.num_known[cut[0]["id"]]
    return [f"{state.info.label(cut[0]['id'])} computes a chunk, up to token {end} of {known}."]


def is_chunk(state: RunState, share: ScheduledRecord) -> bool:
    """Return whether a share leaves a part of the request's known tokens for later steps."""
    return share["computed"] + share["n"] < state.num_known[share["id"]]


def finished(state: RunState, record: StepRecord) -> list[str]:
    """Return a sentence for those who ended in this step."""
    ended = [request_id for request_id, *_ in record["finished"]]
    if not ended:
        return []
    one = len(ended) == 1
    return [f"{names(state, ended)} {'is' if one else 'are'} done and {'frees its' if one else 'free their'} blocks."]


def everyday(state: RunState, record: StepRecord) -> str:
    """Return a sentence for a step in which nothing special happened."""
    shares = record["scheduled"]
    if not shares:
        return "Nobody could be scheduled."
    decoding = [share["id"] for share in shares if state.is_decode(share)]
    rest = [share["id"] for share in shares if not state.is_decode(share)]
    told = [
        f"{names(state, decoding)} decode{'s' if len(decoding) == 1 else ''} one token{' each' * (len(decoding) > 1)}"
    ]
    if rest:
        told = told * bool(decoding) + [f"{names(state, rest)} compute{'s' if len(rest) == 1 else ''} a prompt"]
    return ", ".join(told) + "."
