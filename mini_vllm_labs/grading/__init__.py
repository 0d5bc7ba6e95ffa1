"""`mini-vllm grade`: grades the learner's starters in worker processes, against a plan made with the reference."""
