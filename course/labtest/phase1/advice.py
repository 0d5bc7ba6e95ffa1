"""Rules and questions for mistakes of a step; `symptoms.py` finds out which of them fits."""

Advice = tuple[str, str]

LOOKAHEAD = (
    "`num_lookahead_tokens` is for speculative decoding, which this engine does not have: memory is asked for the "
    "granted tokens only.",
    "your code asked for lookahead slots of {names}. Which arguments of allocate_slots does the task name?",
)
CLAMP = (
    "This step uses your `clamp`, which returned a wrong number: task 1.1 comes first.",
    "in this step {call}. Do the tests of task 1.1 pass?",
)
OTHER_LISTS = (
    "make_room is given the very RUNNING and WAITING of your step: it moves its victims from the one to the other.",
    "in this step make_room was given another object as {names}. Where does that object come from?",
)
ADVANCED = (
    "schedule_step plans. The frame counts the planned tokens as computed, after schedule_step has returned.",
    "your step has added the planned tokens to num_computed_tokens, of {names}. What happens when the frame does?",
)
VANISHED = (
    "Every request is in RUNNING or in WAITING when the step is over, and in one of them only.",
    "{names} was in one of them before the step. Where is it now, and which line took it out or put it in twice?",
)
NOT_ASKED = (
    "How many tokens a request gets is the answer of `chunks.num_new_tokens`.",
    "{names} is in your plan, and your code never asked `chunks` about it. Where does its number come from?",
)
NOTHING = (
    "0 tokens from `chunks` means: not in this step. No memory is asked for, and there is no entry in the plan.",
    "your code went on with {names} although it got 0 tokens. Which line looks at the number that `chunks` returned?",
)
EMPTY_LIST = (
    "allocate_slots returns the blocks it took. [] means that the last block had room; only None is a refusal.",
    "allocate_slots returned [] for {names}, and your code went on as if it had been refused. `if not blocks` and "
    "`if blocks is None` differ for one value. Which?",
)
NO_MEMORY = (
    "A request that was refused memory, and for which no room was made, has no entry in the plan.",
    "{names} was refused and is in your plan. Which blocks would its tokens be written to?",
)
NO_ROOM = (
    "A running request that is refused memory asks `preemption.make_room` before it is skipped.",
    "{names} was refused memory, and your code did not call make_room for it. Which line handles None?",
)
SKIPS = (
    "A victim leaves RUNNING while the step is planned; every request that still runs is looked at all the same.",
    "your loop never came to {names}. make_room takes the victim out of the very list `running`: what does a loop "
    "over that list do then?",
)
DOOR_OPEN = (
    "Once a running request was refused memory, no request is admitted in this step, however the refusal ended.",
    "a running request was refused, and then your code looked at {names} of WAITING. Where does it remember the "
    "refusal?",
)
ENDS_EARLY = (
    "A request that gets no memory, and for which no request is preempted, is skipped in this step. The others go on.",
    "{refused} was refused and is RUNNING still, and your loop never came to {names}. Does it leave the loop or "
    "go on with the next one?",
)
BY_RANK = (
    "The step goes by the order of the two lists. Priorities and arrival times were used when the queue was ordered.",
    "your code served {names}, which is the order of their {what}. Which order do `running` and the queue have?",
)
OUT_OF_ORDER = (
    "The step goes by the order of the two lists, from front to back.",
    "your code looked at {names}, in this order. Which order does the list have that you walk?",
)
STATUS = (
    "A request that is admitted is RUNNING from then on, and one that is not admitted keeps its status.",
    "after your step {names}. Which line sets a status, and at which moment is the admission certain?",
)
SLOTS = (
    "A request is admitted only while fewer than max_num_seqs run.",
    "max_num_seqs is {most}, and {count} run after your step. What does your code compare, and when?",
)
AT_THE_END = (
    "A request that is admitted goes to the end of `running`.",
    "after your step RUNNING is {names}. Where does your code put a request that it admits?",
)
BUDGET = (
    "The budget falls by the tokens of the plan, and by nothing else.",
    "your plan has {planned} tokens, and the budget fell by {spent}. Which line takes from it, and for which tokens?",
)
LEAKED = (
    "Memory is the last thing that an admission asks for: a request that gets it is admitted.",
    "your code allocated memory for {names} and then did not admit it, so its blocks stay taken. What has to be known "
    "before memory is asked for?",
)
TOLD_APART = (
    "`chunks.admits` returns True for a request that may be admitted: then memory is asked for. False ends the "
    "admissions of this step.",
    "`admits` returned {answer} for {names}, and after that your code {did} memory for it. Which of the two answers "
    "ends your loop?",
)
ALSO_CHANGED = (
    "A step decides status and num_computed_tokens of a request; everything else about it stays as it was.",
    "your code changed {names}. Does a later step or the engine still need the old value?",
)
