"""A database's address is shown without its password, however it was mistyped, and a file's as it is."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.mistyped import MISTYPED, PASSWORD
from vfl.data import TableError
from vfl.data.readers import read_raw
from vfl.source_words import recorded, without_password


@pytest.mark.parametrize("typed", MISTYPED)
def test_no_word_of_a_password_is_shown(typed: str) -> None:
    assert PASSWORD not in without_password(typed)
    with pytest.raises(TableError) as caught:
        read_raw(typed, list)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "clients.csv",
        "/data/passengers.csv",
        "data//clients.csv",
        "C:\\data\\clients.csv",
        "dt=2026/x.csv",
        "",
    ],
)
def test_a_path_is_shown_as_it_is(path: str) -> None:
    assert without_password(path) == path


def test_a_file_that_is_there_is_no_address(tmp_path: Path) -> None:
    (tmp_path / "team@work:6.csv").write_text("id,x\n1,2\n")
    assert without_password(str(tmp_path / "team@work:6.csv")) == str(tmp_path / "team@work:6.csv")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql+psycopg://me:secret@db.example:5432/clinic?table=t",
            "postgresql+psycopg://me:***@db.example:5432/clinic",
        ),
        ("postgresql://localhost:5432/clinic?table=t", "postgresql://localhost:5432/clinic"),
        ("sqlite:///C:/data/x.db?table=t", "sqlite:///C:/data/x.db"),
        ("sqlite:////data/06:00.db?table=t", "sqlite:////data/06:00.db"),
    ],
)
def test_what_is_needed_to_mend_an_address_stays(url: str, shown: str) -> None:
    assert without_password(url) == shown


@given(
    scheme=st.sampled_from(["postgresql://", "postgresql+psycopg://", "postgresql//", "postgresql:/", "db:", "", "//"]),
    password=st.text("abcdefgh123456!$&/(){}?#%<>|,;._-~*+='\"\\ äß", min_size=8, max_size=20),
    place=st.sampled_from(["host", "host/db", "host:5432/db?table=t", "host/db?table=t&sslmode=require", "host/x.csv"]),
)
@example("postgresql://", "sslmode=require", "host")
def test_whatever_stands_between_a_user_and_an_at_is_left_out(scheme: str, password: str, place: str) -> None:
    shown = without_password(f"{scheme}user:{password}@{place}")
    assert password not in shown
    assert "host" in shown


def test_what_a_run_records_lacks_the_password_only() -> None:
    url = "postgresql://me:secret@h:1/d?table=t&password=secret&sslmode=require"
    assert recorded(url) == "postgresql://me:***@h:1/d?table=t&password=***&sslmode=require"
    for same in ("postgresql://me@h/d?table=a@b", "sqlite:////data/x.db?table=t", "clients.csv", "a:b@c.csv", ""):
        assert recorded(same) == same


def test_an_address_with_its_password_left_out_says_to_write_it() -> None:
    for typed in ("postgresql://me:***@h/d?table=t", "postgresql://me@h/d?table=t&password=***"):
        with pytest.raises(TableError, match="write it in place of"):
            read_raw(typed, list)
