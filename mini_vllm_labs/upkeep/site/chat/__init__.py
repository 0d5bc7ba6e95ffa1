"""The website's page `chat/`, which is the live page of `mini-vllm serve` with its server and engine in the tab.

`build.py` builds it; `python -m mini_vllm_labs.upkeep.site.chat.speed` measures it. `chat/engine.zip` contains the
reference's phases 1 to 5 as bytecode without docstrings. The lab never loads that file, and its wheel contains no
solutions. A determined reader can unpack the file, import the functions in a different Pyodide, or decompile them. The
file keeps the answers out of sight but does not protect them.
"""
