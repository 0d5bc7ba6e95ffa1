"""Creates an environment with a release's scheduler, for `mini-vllm bench scheduler --peer vllm` and other commands.

Run it as `python -m mini_vllm_labs.upkeep.vllm_peer [VERSION]`; the default is 0.13.0.
"""

import sys

from mini_vllm.release_rules import RELEASES
from mini_vllm_labs.upkeep.vllm_peer.install import install

if __name__ == "__main__":
    install(sys.argv[1] if len(sys.argv) > 1 else RELEASES[0])
