"""`python -m mini_vllm_labs.upkeep.site.website [FOLDER]` builds only the pages, into `build/site` next to the lab."""

import argparse
import sys
from pathlib import Path

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.student_edition.edition import compose
from mini_vllm_labs.classroom.student_edition.texts import ReleaseError
from mini_vllm_labs.upkeep.site.website.build import WebsiteError, write_website

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m mini_vllm_labs.upkeep.site.website", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=CHECKOUT / "build/site")
    try:
        write_website(compose(), parser.parse_args().folder.resolve())
    except (ReleaseError, WebsiteError) as error:
        sys.exit(f"error: {error}")
