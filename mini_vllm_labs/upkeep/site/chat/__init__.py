"""The page `chat/` of the website: the live page of `mini-vllm serve`, with its server and the engine in the tab.

`build.py` puts it together; `python -m mini_vllm_labs.upkeep.site.chat.speed` measures it. Phases 1 to 5 are the
reference's, as bytecode without docstrings, in `chat/engine.zip`. The lab never loads that file, and its wheel has no
solutions. A determined reader can unpack it, import the functions in a Pyodide of their own, or decompile them: it
keeps the answers out of sight and is no lock.
"""
