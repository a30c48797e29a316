"""The reader: who gets which rows, at every world size, without Ray."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError
from ray_jobs.training.reader import EpochReader, keyed_permutation

PARTS = (37, 0, 50, 12, 1)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """100 rows in five parts, one of them empty; `list` marks runs of one to seven rows."""
    builder = ArtifactBuilder.begin(str(tmp_path_factory.mktemp("rows") / "d"), "pairs", config={}, inputs={})
    start = 0
    for number, rows in enumerate(PARTS):
        ids = list(range(start, start + rows))
        lists = [f"{number}-{int((8 * (i - start)) ** 0.5)}" for i in ids]
        builder.publish_table(f"part-{number:05d}.parquet", pa.table({"id": ids, "list": lists, "other": ids}))
        start += rows
    builder.publish_table("rejects/rejects.parquet", pa.table({"id": [-1], "list": ["x"], "other": [0]}))
    builder.commit({})
    return Artifact.open(builder.uri)


def reader(dataset, **options):
    return EpochReader(dataset, ["id"], **({"seed": 5, "batch_size": 8, "window_rows": 40} | options))


def ids(table):
    return table["id"].to_pylist()


def test_an_epoch_is_every_row_once_and_the_last_batch_is_used(dataset):
    r = reader(dataset)
    assert (r.rows, r.steps_per_epoch) == (100, 13)
    batches = [ids(r.batch(step)) for step in range(13)]
    assert [len(batch) for batch in batches] == [8] * 12 + [4]
    epoch = list(chain(*batches))
    assert sorted(epoch) == list(range(100)) != epoch
    assert reader(dataset, drop_last=True).steps_per_epoch == 12


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 11])
def test_slices_in_order_of_rank_are_the_batch(dataset, world_size):
    r = reader(dataset)
    for step in (0, 4, 12, 13, 30):
        slices = [ids(r.slice(step, rank, world_size)) for rank in range(world_size)]
        assert list(chain(*slices)) == ids(r.batch(step))
        assert max(map(len, slices)) - min(map(len, slices)) <= 1


def test_any_step_can_be_reached_directly(dataset):
    onward = reader(dataset)
    expected = [ids(onward.batch(step)) for step in range(40)]
    assert [ids(reader(dataset).batch(step)) for step in (39, 13, 25)] == [expected[39], expected[13], expected[25]]


def test_order_depends_on_seed_and_epoch(dataset):
    r = reader(dataset)
    assert ids(r.batch(0)) != ids(r.batch(13))
    assert ids(r.batch(0)) != ids(reader(dataset, seed=6).batch(0))


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_runs_of_the_uncut_column_stay_on_one_rank(dataset, world_size):
    r = reader(dataset, uncut="list")
    owner, seen = {}, []
    for step in range(r.steps_per_epoch):
        for rank in range(world_size):
            rows = r.slice(step, rank, world_size)
            seen += ids(rows)
            for name in set(rows["list"].to_pylist()):
                assert owner.setdefault(name, (step, rank)) == (step, rank)
    assert sorted(seen) == list(range(100))
    assert len(owner) > 40


def test_one_window_in_memory_per_batch(dataset):
    r = reader(dataset)
    r.batch(0)
    assert r._window.cache_info().misses == 1
    for step in range(13):
        r.batch(step)
    windows = len(r._plan(0))
    assert windows > 1
    assert r._window.cache_info().misses == windows


def test_only_the_columns_asked_for_are_read(dataset):
    assert reader(dataset).batch(0).column_names == ["id"]


def test_too_few_rows_for_one_batch(dataset):
    with pytest.raises(InputError, match="100 rows, too few for one batch of 101"):
        reader(dataset, batch_size=101, drop_last=True)


def test_keyed_permutation_is_a_fixed_permutation():
    assert keyed_permutation(8, 1).tolist() == keyed_permutation(8, 1).tolist()
    assert sorted(keyed_permutation(1000, 7).tolist()) == list(range(1000))
    assert keyed_permutation(1000, 7).tolist() != keyed_permutation(1000, 8).tolist()
    where = np.array([keyed_permutation(10, key).tolist().index(0) for key in range(2000)])
    assert abs(where.mean() - 4.5) < 0.3
