"""Hashed words: the same as scikit-learn's `HashingVectorizer`, on any text, and each column can be read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")

import pyarrow as pa

from kampong.streaming.columns.text_hashing import LONGEST, hash_words, murmur

FEW = st.text(st.sampled_from("aAbBß éÉ-_'.,1\n中文😀İΣ\x00 "), max_size=40)
texts = st.lists(FEW | st.text(max_size=30), max_size=8)


def matrix(words, width):
    return sparse.csr_array((words.data, words.indices, words.indptr), shape=(len(words.indptr) - 1, width))


@given(texts, st.sampled_from([1, 7, 64, 2**18]), st.sampled_from([1, 2, 3]), st.booleans())
def test_hashed_words_are_those_of_scikit_learn(values, width, ngrams, unit):
    found = matrix(hash_words(pa.array(values, pa.string()), width, ngrams, unit=unit), width)
    peer = HashingVectorizer(n_features=width, ngram_range=(1, ngrams), norm="l2" if unit else None)
    expected = peer.transform(values) if values else sparse.csr_array((0, width))
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-12, atol=0)
    assert found.has_canonical_format


@given(st.binary(max_size=40))
def test_the_hash_is_the_reference(data):
    assert murmur(np.frombuffer(data, dtype=np.uint8), 0, len(data)) == murmurhash3_32(data, positive=False)


def test_every_column_is_named_by_its_first_word():
    column = pa.array(["The quick, quick FOX", None, "über-fox x " + 90 * "a"], pa.string())
    words = hash_words(column, 2**18, 2)
    assert [name.decode() for name in words.named.names] == [
        "the",
        "quick",
        "fox",
        "the quick",
        "quick quick",
        "quick fox",
        "über",
        LONGEST * "a",
        "über fox",
        "fox " + (LONGEST - 4) * "a",
    ]
    for place, name in zip(words.named.columns.tolist(), words.named.names, strict=True):
        if len(name) < LONGEST:
            assert place == abs(murmurhash3_32(name, positive=False)) % 2**18
    assert set(words.named.columns.tolist()) == set(words.indices.tolist())


def test_slices_and_large_strings_are_read_where_they_begin():
    values = ["one two", "three", "", "four five"]
    for kind in (pa.string(), pa.large_string()):
        part = pa.array(values, kind).slice(1, 3)
        assert [name.decode() for name in hash_words(part, 2**18).named.names] == ["three", "four", "five"]
