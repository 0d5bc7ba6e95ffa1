"""The course as a static website: the lab in a browser tab, with Python compiled to WebAssembly and nothing to install.

`python -m mini_vllm_labs.upkeep.site` builds it from the student edition, so no solution is in it. What the browser
loads comes from npm and PyPI, pinned, and lies in the site: a learner's browser asks no other machine.
"""
