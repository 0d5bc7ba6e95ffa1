"""`python -m tests.viva.record_placement` runs the reference, and writes the questions for `mini-vllm place`."""

from mini_vllm_labs.viva.placement import FILE, make_sheets

if __name__ == "__main__":
    FILE.write_text(make_sheets(), encoding="utf-8")
