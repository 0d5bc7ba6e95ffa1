"""The viva: questions about a learner's own files and run; running them gives the right answers."""

NUM_QUESTIONS = 8
