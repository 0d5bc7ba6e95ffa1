"""Builds the course as a static website, with the lab in a browser tab, where Python is compiled to WebAssembly.

`python -m mini_vllm_labs.upkeep.site` builds it from the student edition, so it does not contain solutions. Pinned
packages from npm and PyPI are copied into the site, so that a learner's browser does not contact other machines.
"""
