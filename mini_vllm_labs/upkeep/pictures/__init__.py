"""Makes the pictures in the README and the docs, each with a function here: `python -m
mini_vllm_labs.upkeep.pictures`."""
