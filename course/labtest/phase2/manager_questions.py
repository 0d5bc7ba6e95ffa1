"""What the harness of the KV cache manager asks: by the exception, or by what differs."""

from course.labtest.crash_hints import CrashHint

ALLOCATE_HINTS = (
    CrashHint(
        ValueError,
        "does the free queue hold enough for this call, and is that known before anything is taken? Which blocks leave "
        "it: the new ones, hit blocks too, or more?",
        inside="popleft",
    ),
    CrashHint(
        KeyError,
        "a request that is being admitted has no block table yet, any other has one. Which is it here, and what does "
        "your dict hold for it?",
    ),
    CrashHint(
        (AttributeError, TypeError), "`hit_blocks` may be a tuple: which of your lines needs a list?", word="tuple"
    ),
)
FREE_HINTS = (
    CrashHint(KeyError, "a request that holds nothing can be freed too: what does your dict do with an id it lacks?"),
)
ANSWER = (
    "the answer alone differs, the rest is as expected. How many blocks does this call take by the rules, which does "
    "your code take, and which list do you return?"
)
OTHER_BLOCKS = (
    "as many blocks are taken as expected, but others or in another order. Which lie in the free queue when you take "
    "them, front first, have hit blocks left it by then, and which list do you return?"
)
REFUSED_BEFORE = (
    "an allocate_slots above answers None, a refusal, and should have got its blocks. How many did it need, and how "
    "many were free?"
)
REFUSED = (
    "the answer is None, a refusal, and by the rules this call gets its blocks. Which of your lines returns it? How "
    "many blocks does the call take, how many of its hit blocks lie in the free queue, and how many blocks are free?"
)
GRANTED = (
    "the answer is [], a success, and by the rules this call is refused. How many new blocks does it need in your "
    "code, and what does a refusal return?"
)
QUEUE = (
    "`free_block_ids` alone differs, the rest is as expected. Which blocks come back by the rules, and in which order? "
    "Is your list the free queue itself, from its front and not sorted?"
)
HELD = (
    "`ref_counts` alone differs: a block counts once for each table that it stands in. From where does your code have "
    "the numbers, and which of your lines change them?"
)
TABLE = (
    "the blocks taken are as expected, the table is not. Which blocks belong in it, those of the first tokens first, "
    "and which of your lines put them there?"
)
ORDER = (
    "the right blocks stand in the table, in another order. Its first entry holds the first tokens: in which order "
    "are the blocks handed out, and in which does your code put them into the table, hits and new ones?"
)
UNHELD = "`ref_counts` alone differs: it names blocks with 0 holders. Which blocks belong in it?"
CALL_RULES = {
    "pin": "A request without a table is being admitted, with a hit or without. How does your code tell, and what does "
    "it do first then?",
    "cache_full_blocks": "Which blocks are taken in this call, and which of the table become full: by the tokens "
    "computed before it, and by those known after it?",
    "drop_uncomputed": "A call with an empty list is not shown. A block is full with its last token: with 3 of 4 it is "
    "not. At which place of the table, first block first, does your list begin?",
}
