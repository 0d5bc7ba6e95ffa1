"""`mini-vllm grade`: the learner's starters, graded in worker processes against a plan made with the reference."""
