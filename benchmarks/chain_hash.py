"""Speed of the chain hash: the C++ twin beside the Python one.

Run with `.venv/bin/python -m benchmarks.chain_hash`. Prints one line for each length of prompt and
unit; the best of seven rounds counts, since only noise makes a round slower.
"""

import random
import timeit

from okibi.core.chain_hash import DIGEST_BYTES, native_chain_digests, python_chain_digests

TOKEN_BYTES = 4
CASES = ((16, 16), (2_048, 16), (142_000, 16), (142_000, 64), (142_000, 256))
"""(tokens, tokens a unit)"""


def microseconds(function, data: bytes, unit: int) -> float:
    calls = max(1, 60_000 // (len(data) // TOKEN_BYTES))
    timer = timeit.Timer(lambda: function(bytes(DIGEST_BYTES), data, unit * TOKEN_BYTES))
    return min(timer.repeat(7, calls)) / calls * 1e6


def main() -> None:
    print("| tokens | unit | Python, µs | C++, µs | ratio |\n|---:|---:|---:|---:|---:|")
    for num_tokens, unit in CASES:
        data = random.Random(0).randbytes(num_tokens * TOKEN_BYTES)
        python = microseconds(python_chain_digests, data, unit)
        if native_chain_digests is None:
            print(f"| {num_tokens:,} | {unit} | {python:,.1f} | not built | |")
            continue
        native = microseconds(native_chain_digests, data, unit)
        numbers = f"{python:,.1f} | {native:,.1f} | {python / native:.1f}"
        print(f"| {num_tokens:,} | {unit} | {numbers} |")


if __name__ == "__main__":
    main()
