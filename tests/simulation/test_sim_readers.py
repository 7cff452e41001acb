"""Workload files: three formats, gzip or plain, and errors that say where and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tenure.model.errors import InvalidInput
from tenure.model.units import US
from tenure.simulation import read_workload
from tenure.simulation.sla.readers import ORIGINAL_HEADER, RM_HEADER

RM = ",".join(RM_HEADER)
GIB = 1 << 30


def written(folder: Path, text: str | bytes, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_rm_columns_plain_and_packed(tmp_path: Path) -> None:
    text = f"{RM}\n0,4,6,7,39,153,396\n1,5,8,1,96,54,173\n"
    plain = read_workload(written(tmp_path, text))
    packed = read_workload(written(tmp_path, gzip.compress(text.encode()), "jobs.csv.gz"))
    assert plain.name == packed.name == "jobs"
    assert plain.ids == packed.ids == ("0", "1")
    for column, expected in {
        "cpu_m": [4000, 5000],
        "memory_bytes": [6 * GIB, 8 * GIB],
        "executors": [7, 1],
        "arrival_us": [39 * US, 96 * US],
        "run_us": [153 * US, 54 * US],
        "deadline_us": [396 * US, 173 * US],
    }.items():
        assert getattr(plain, column).tolist() == expected
        assert getattr(packed, column).tolist() == expected


def test_the_authors_seven_columns(tmp_path: Path) -> None:
    text = f"{','.join(ORIGINAL_HEADER)}\r\njob-7,1,2,3,4,5,6\r\n"
    found = read_workload(written(tmp_path, text))
    assert found.ids == ("job-7",)
    assert (found.cpu_m[0], found.memory_bytes[0], found.executors[0]) == (1000, 2 * GIB, 3)
    assert (found.arrival_us[0], found.run_us[0], found.deadline_us[0]) == (4 * US, 5 * US, 6 * US)


FACEBOOK = "job,submit_s,gap_s,map_input_bytes,shuffle_bytes,reduce_output_bytes"


@pytest.mark.parametrize("more", [("", ""), (",input_path", ",9")])
def test_a_facebook_day(tmp_path: Path, more: tuple[str, str]) -> None:
    rows = [f"0,1,1,{5 << 30},{1 << 30},0{more[1]}", f"1,3,2,0,0,0{more[1]}"]
    path = written(tmp_path, "\n".join([FACEBOOK + more[0], *rows]))
    day = read_workload(path, seed=1)
    assert day.executors.tolist() == [5, 1]
    # 6 GiB over 5 executors at 50 MiB/s, and the floor of 10 s
    assert (day.run_us // US).tolist() == [34, 10]
    assert day.arrival_us.tolist() == [US, 3 * US]
    assert (day.deadline_us >= day.arrival_us + day.run_us).all()
    np.testing.assert_array_equal(day.cpu_m, read_workload(path, seed=1).cpu_m)
    drawn = {tuple(read_workload(path, seed=seed).memory_bytes.tolist()) for seed in range(9)}
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", ":1", "the header is ''; expected job,"),
        ("a,b\n1,2\n", ":1", "expected job,cores_per_executor"),
        (f"{RM}\n", ":2", "holds no job"),
        (
            f"{RM}\n0,1,1,1,0,5,9\n1,x,1,1,0,5,9\n",
            ":3 column cores_per_executor",
            "'x' is no number",
        ),
        (f"{RM}\n0,0,1,1,0,5,9\n", ":2 column cores_per_executor", "0 is not within 0.001 to"),
        (f"{RM}\n0,1,1,1.5,0,5,9\n", ":2 column executors", "'1.5' is no whole number"),
        (f"{RM}\n0,1,1,0,0,5,9\n", ":2 column executors", "0 is not within 1 to"),
        (f"{RM}\n0,1,1,1,-1,5,9\n", ":2 column arrival_s", "-1 is not within 0 to"),
        (f"{RM}\n0,1,1,1,0,0,9\n", ":2 column est_run_s", "0 is not within"),
        (f"{RM}\n0,1,1,1,0,nan,9\n", ":2 column est_run_s", "nan is not within"),
        (f"{RM}\n0,1,1,1,0,5,1e99\n", ":2 column deadline_s", "1e99 is not within"),
        (f"{RM}\n0,1,1,1,0,5,{'9' * 400}\n", ":2 column deadline_s", "is not within"),
        (f"{RM}\n0,1,1,1,0,5\n", ":2", "has 6 columns, not 7"),
        (f"{RM}\n0,1,1,1,0,5,9\n0,1,1,1,0,5,9\n", ":3 column job", "stands on line 2 too"),
        (f"{RM}\n,1,1,1,0,5,9\n", ":2 column job", "is empty"),
        (f'{RM}\n"0,1\n', ":2", "is not CSV"),
        (f"{RM}\n0,1,1,1,0,5,\xff\n".encode("latin-1"), ":2", "is not UTF-8"),
        (gzip.compress(RM.encode(), mtime=0)[:-9], "", "is damaged gzip"),
    ],
)
def test_bad_files(tmp_path: Path, text: str | bytes, where: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        read_workload(path)
    assert f"{path}{where}" in caught.value.detail
    assert words in caught.value.detail
    assert caught.value.fields
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_workload(tmp_path / "absent.csv")
    with pytest.raises(InvalidInput, match="directory"):
        read_workload(tmp_path)


def test_a_byte_order_mark_and_blank_lines_are_borne(tmp_path: Path) -> None:
    text = f"\ufeff{RM}\n\n0,1,1,1,0,5,9\n\n"
    assert len(read_workload(written(tmp_path, text))) == 1
