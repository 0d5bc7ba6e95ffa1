"""The pictures of the README and the docs, each made by a function here: `python -m mini_vllm_labs.upkeep.pictures`."""
