"""Readers of any bytes: well-formed ones broken at random, and all that was found before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_targets import FOUND, SEEDS, TARGETS

pieces = st.sampled_from(
    [
        *(b"\0", b"\n", b" ", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"<", b">", b"&", b"&#0;", b"]]>", b"<!--"),
        *(b"<page>", b"</page>", b"<!DOCTYPE a>", b"END", b"1", b"-1", b"99999999999", b"{", b"}", b"[", b"]", b'"'),
        *(b"\\ud800", b"NaN", b"1e999", b"null", b"BZh9", b"\x1f\x8b\x08", b"{{", b"[[", b"{|", b"\xc2\x9b"),
    ]
)
edits = st.lists(
    st.tuples(st.integers(0, 2**16), st.integers(0, 12), pieces | st.binary(max_size=8)), min_size=1, max_size=8
)
"""Where, how many bytes go, and what comes in their place."""


@pytest.mark.parametrize("name", list(TARGETS))
def test_well_formed_inputs_are_taken(name: str) -> None:
    """Mutations that start from refused inputs would find little."""
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", list(TARGETS))
@given(st.data())
def test_any_broken_input_is_read_or_refused_in_one_sentence(name: str, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SEEDS[name])))
    for place, n_gone, new in data.draw(edits):
        start = place % (len(content) + 1)
        content[start : start + n_gone] = new
    TARGETS[name](bytes(content))


@pytest.mark.parametrize("name", list(TARGETS))
@settings(max_examples=50)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_sentence(name: str, content: bytes) -> None:
    TARGETS[name](content)


@pytest.mark.parametrize("path", sorted(FOUND.glob("*-*")), ids=lambda path: path.name)
def test_what_was_found_before_stays_mended(path) -> None:
    """One file for each fault that fuzzing has shown."""
    TARGETS[path.name.partition("-")[0]](path.read_bytes())


def test_inputs_that_were_found_are_kept() -> None:
    assert list(FOUND.glob("*-*")), "tests/fuzz/found is empty"
