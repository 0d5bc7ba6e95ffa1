"""Makes the pictures in the README and the docs, with one function per picture: `python -m
mini_vllm_labs.upkeep.pictures`."""
