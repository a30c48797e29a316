"""The vectorised forms of normalising and hashing equal the plain ones."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from biomodels.terminology.hashing import hash_column, hash_strings, mix
from biomodels.terminology.normalise import Normaliser, name_id

TEXTS = st.lists(st.one_of(st.text(max_size=8), st.text(" \t\x1c\x85\xa0aBİß-", max_size=8)), max_size=20)


@settings(deadline=None)
@given(texts=TEXTS, lowercase=st.booleans(), tidy=st.booleans())
def test_columns_equal_single_strings(texts, lowercase, tidy):
    normaliser = Normaliser(lowercase, tidy)
    assert normaliser.column(pa.array(texts, pa.string())).to_pylist() == [normaliser(text) for text in texts]
    column = pa.chunked_array([pa.array(texts, pa.string())] * 2)
    assert hash_column(column).tolist() == [name_id(text) for text in texts * 2]
    assert hash_strings(texts).dtype == np.int64


def test_mixing_spreads_bits_and_depends_on_every_word():
    hashes = mix(13, np.arange(10_000), np.zeros(10_000, dtype=np.int64))
    assert len(np.unique(hashes)) == 10_000
    for bit in range(64):
        assert 4_700 < int(((hashes >> np.uint64(bit)) & np.uint64(1)).sum()) < 5_300
    assert mix(1, 2)[0] != mix(2, 1)[0] != mix(1, 3)[0]
    assert mix(-1)[0] == mix(2**64 - 1)[0]
