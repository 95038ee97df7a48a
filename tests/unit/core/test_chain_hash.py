"""The chain hash: both twins against hashlib on whole messages, and against RFC 7693."""

import hashlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okibi.core.chain_hash import (
    DIGEST_BYTES,
    chain_digests,
    native_chain_digests,
    python_chain_digests,
    root_digest,
)

ROOT = bytes(range(DIGEST_BYTES))
TWINS = [pytest.param(python_chain_digests, id="python")]
if native_chain_digests is not None:
    TWINS.append(pytest.param(native_chain_digests, id="native"))

# Around one and two compression blocks of 128 bytes, less the 16 bytes of the parent.
EDGE_UNITS = [1, 3, 4, 16, 64, 111, 112, 113, 127, 128, 129, 239, 240, 241, 256, 1024]


def expected_chain(parent: bytes, data: bytes, unit_bytes: int) -> bytes:
    chain = [parent]
    for start in range(0, len(data) // unit_bytes * unit_bytes, unit_bytes):
        message = chain[-1] + data[start : start + unit_bytes]
        chain.append(hashlib.blake2b(message, digest_size=16).digest())
    return b"".join(chain[1:])


def test_hashlib_is_rfc_7693():
    """The oracle itself: the vector of RFC 7693 appendix A."""
    assert hashlib.blake2b(b"abc").hexdigest().startswith("ba80a53f981c4d0d6a2797b69f12f6e9")


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("unit_bytes", EDGE_UNITS)
def test_twin_equals_hashlib_at_block_edges(twin, unit_bytes):
    data = bytes(i * 7 % 251 for i in range(3 * unit_bytes + unit_bytes // 2))

    digests = twin(ROOT, data, unit_bytes)

    assert len(digests) == 3 * DIGEST_BYTES
    assert digests == expected_chain(ROOT, data, unit_bytes)


@pytest.mark.parametrize("twin", TWINS)
@given(
    parent=st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
    data=st.binary(max_size=2000),
    unit_bytes=st.integers(1, 600),
)
def test_twin_equals_hashlib(twin, parent, data, unit_bytes):
    assert twin(parent, data, unit_bytes) == expected_chain(parent, data, unit_bytes)


@pytest.mark.parametrize("twin", TWINS)
def test_a_chain_can_be_continued_from_its_last_digest(twin):
    data = bytes(range(240))
    head = twin(ROOT, data[:128], 16)
    tail = twin(head[-DIGEST_BYTES:], data[128:], 16)
    assert head + tail == twin(ROOT, data, 16)


@pytest.mark.parametrize("twin", TWINS)
def test_less_than_a_unit_has_no_digest(twin):
    assert twin(ROOT, b"", 4) == b""
    assert twin(ROOT, b"abc", 4) == b""


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_any_byte_buffer_is_read(twin, wrap):
    data = bytes(range(64))
    assert twin(ROOT, wrap(data), 16) == twin(ROOT, data, 16)


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(("parent", "unit_bytes"), [(b"short", 4), (ROOT, 0), (ROOT, -4)])
def test_bad_arguments_are_refused(twin, parent, unit_bytes):
    with pytest.raises(ValueError, match=r"parent|unit_bytes"):
        twin(parent, b"data", unit_bytes)


@pytest.mark.parametrize("twin", TWINS)
def test_long_inputs_hash_alike_in_threads(twin):
    """Inputs long enough for the native twin to let other threads run."""
    data = bytes(200_000)
    expected = expected_chain(ROOT, data, 64)
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: results.append(twin(ROOT, data, 64))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_dispatch_gives_the_same_digests_whatever_was_built():
    data = bytes(range(256))
    assert chain_digests(ROOT, data, 64) == expected_chain(ROOT, data, 64)


def test_root_digest_tells_fingerprint_from_salt():
    roots = [
        root_digest(*pair)
        for pair in [("", ""), ("model", ""), ("", "model"), ("mod", "el"), ("modé", "el")]
    ]
    assert len(set(roots)) == len(roots)
    assert all(len(root) == DIGEST_BYTES for root in roots)
    assert root_digest("model", "salt") == root_digest("model", "salt")
