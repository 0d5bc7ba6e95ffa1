"""The viva: questions about a learner's own files and run, whose right answers are computed by running them."""

NUM_QUESTIONS = 8
