"""The viva: questions about a learner's files and run, whose right answers come from running them."""

NUM_QUESTIONS = 8
