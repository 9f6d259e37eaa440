"""All parties' tables before anything starts: every fault in one message, and who gets which columns."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import prepare
from plumbline.audit.tables import ExaminedTables, JoinedTables, examine_tables, print_tables
from services.common.settings import Settings
from vfl.data import ColumnPlan, TableError, TypedTable


class Files:
    """Two tables that fit together, written as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = range(30)
        self.bank = pd.DataFrame(
            {
                "client": [f"{row:03d}" for row in rows],
                "age": [20 + row for row in rows],
                "job": [("clerk", "smith", "baker")[row % 3] for row in rows],
                "default": [("yes", "no")[row % 2] for row in rows],
            }
        )
        self.shop = pd.DataFrame(
            {
                "client": [f"{row:03d}" for row in reversed(rows)],
                "spent": [row * 1.5 for row in rows],
                "visits": [row % 4 for row in rows],
                "town": [("Ulm", "Bonn")[row % 2] for row in rows],
            }
        )

    def request(self, **changes: Any) -> AuditRequest:
        paths = {name: self.folder / f"{name}.csv" for name in ("bank", "shop")}
        self.bank.to_csv(paths["bank"], index=False)
        self.shop.to_csv(paths["shop"], index=False)
        tables = {"active": str(paths["bank"]), "passive": (str(paths["shop"]),)}
        return AuditRequest.of(**{**tables, "label": "default", "id_column": "client", **changes})

    def split(self, **changes: Any) -> AuditRequest:
        path = self.folder / "all.csv"
        self.bank.merge(self.shop, on="client").to_csv(path, index=False)
        request = {"data": str(path), "label": "default", "id_column": "client", "active_columns": ("age", "job")}
        return AuditRequest.of(**{**request, **changes})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def examined(request: AuditRequest) -> ExaminedTables:
    return examine_tables(request.tables)


def names(found: ExaminedTables) -> dict[str, list[str]]:
    return {party: [plan.name for plan in table.plans] for party, table in found.tables.items()}


def faults(request: AuditRequest) -> list[str]:
    with pytest.raises(TableError) as caught:
        examine_tables(request.tables)
    return list(caught.value.problems)


def test_tables_that_fit(files: Files) -> None:
    found = examined(files.request())
    assert names(found) == {"active": ["age", "job"], "passive": ["spent", "visits", "town"]}
    assert found.shared == 30
    assert found.settings == files.request().tables.party_settings


def test_a_registered_data_set_has_no_tables() -> None:
    assert not examined(AuditRequest.of(data="wine")).tables


def test_everything_wrong_with_all_tables_is_told_at_once(files: Files) -> None:
    files.bank["client"] = files.bank["client"].replace("003", "002")
    files.shop["client"] = files.shop["client"].replace("024", "")
    told = faults(files.request(label="defualt", encode={"town": "number"}))
    assert [one.partition(": ")[0] for one in told] == [
        *("active (bank.csv)", "active (bank.csv)", "passive (shop.csv)", "passive (shop.csv)")
    ]
    assert "no label column 'defualt'" in told[0]
    assert "Did you mean 'default'?" in told[0]
    assert "1 row with the id of an earlier row (row 4)" in told[1]
    assert "1 row without an id (row 6)" in told[2]
    assert "'town' can't become a number" in told[3]
    assert not any(cell in " ".join(told) for cell in ("Ulm", "Bonn", "clerk"))


def test_missing_files_are_told_together(files: Files) -> None:
    told = faults(files.request(active="none.csv", passive=("nothing.csv", "never.parquet"), drop=("typo",)))
    assert [one.partition(":")[0] for one in told] == [
        *("active (none.csv)", "passive-1 (nothing.csv)", "passive-2 (never.parquet)")
    ]


def test_patterns_apply_to_whichever_table_has_the_column(files: Files) -> None:
    found = examined(files.request(columns=("age", "[sv]*"), drop=("vis*",), encode={"age": "ordinal"}))
    assert names(found) == {"active": ["age"], "passive": ["spent"]}
    active, passive = found.settings["active"], found.settings["passive"]
    assert (active["columns"], active["encode"]) == (("age",), {"age": "ordinal"})
    assert (passive["columns"], passive["drop"]) == (("spent", "visits"), ("visits",))


def test_a_partys_name_picks_its_column(files: Files) -> None:
    files.shop["age"] = range(30)
    found = examined(files.request(drop=("passive:age",), encode={"active:age": "onehot"}))
    assert names(found) == {"active": ["age", "job"], "passive": ["spent", "visits", "town"]}
    assert "encode" not in found.settings["passive"]


def test_roles_of_columns_go_to_whichever_party_has_them(files: Files) -> None:
    found = examined(files.request(public=("town",), sensitive=("spent", "active:age")))
    assert (found.settings["passive"]["public"], found.settings["passive"]["sensitive"]) == (("town",), ("spent",))
    assert found.settings["active"]["sensitive"] == ("age",)
    assert "public" not in found.settings["active"]
    assert "Did you mean 'spent'?" in faults(files.request(sensitive=("spend",)))[0]


def test_roles_in_a_registered_data_set_are_checked_against_all_shares() -> None:
    def joined(**roles: tuple[str, ...]) -> JoinedTables:
        asked = AuditRequest.of(data="breast_cancer", **roles).tables
        return JoinedTables({party: Settings(**own) for party, own in asked.party_settings.items()})

    roles = joined(sensitive=("worst symmetry",), public=("mean *",))
    assert roles.data["passive"].table.roles == {"worst symmetry": "sensitive"}
    assert set(roles.data["active"].table.roles.values()) == {"public"}
    with pytest.raises(ValueError, match=r"'worst symetry', which --sensitive names\. Did you mean 'worst symmetry'"):
        joined(sensitive=("worst symetry",))


def test_what_matches_nowhere_is_told_once(files: Files) -> None:
    told = faults(files.request(columns=("age", "spnt"), drop=("z*",), encode={"active:town": "ordinal"}))
    assert told[0] == "No table has a column 'spnt', which --columns names. Did you mean 'spent'?"
    assert "'z*', which --drop names" in told[1]
    assert "'active:town', which --encode names" in told[2]


def test_the_label_at_a_passive_party(files: Files) -> None:
    files.shop["default"] = files.bank["default"]
    (told,) = faults(files.request())
    assert told.startswith("passive has the label column 'default' too")
    assert names(examined(files.request(drop=("passive:default",))))["passive"] == ["spent", "visits", "town"]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda ids: ids.str.lstrip("0").replace("", "0"), "leading zeros"),
        (lambda ids: "x" + ids, "what isn't a digit"),
        (lambda ids: ids + ".x", "what isn't a digit"),
        (lambda ids: ids.str[:1] + "-" + ids.str[1:], "blanks, points and dashes"),
    ],
)
def test_ids_that_differ_by_form_only(files: Files, change: Any, hint: str) -> None:
    files.bank["client"] = [f"{row:03d}" for row in range(1, 10)] + [f"{row:04d}" for row in range(10, 31)]
    files.shop["client"] = change(files.bank["client"])
    (told,) = faults(files.request())
    assert "active (bank.csv) has 30, passive (shop.csv) has 30" in told
    assert f"would be if {hint} didn't count" in told


def test_ids_of_other_people(files: Files) -> None:
    files.shop["client"] = [f"Z{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCD"]
    files.bank["client"] = [f"Q{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCD"]
    (told,) = faults(files.request())
    assert told.startswith("No id is in all tables (active (bank.csv) has 30")
    assert "check that --id names the same people's ids" in told


def test_ids_of_any_type_meet(files: Files) -> None:
    files.bank["client"] = range(1, 31)
    files.shop["client"] = [float(number) for number in range(1, 31)]
    assert examined(files.request()).shared == 30  # the second file has 1.0, 2.0, ...
    paths = {ending: str(files.folder / f"shop.{ending}") for ending in ("parquet", "xlsx")}
    files.shop.to_parquet(paths["parquet"])
    files.shop.assign(client=files.bank["client"].astype(str)).to_excel(paths["xlsx"], index=False)
    assert examined(files.request(passive=tuple(paths.values()))).shared == 30


# --- one table, split by columns ------------------------------------------------------------------------------


def test_one_table_is_split_by_columns(files: Files) -> None:
    found = examined(files.split(active_columns=("age", "j*")))
    assert names(found) == {"active": ["age", "job"], "passive": ["spent", "visits", "town"]}
    assert found.tables["passive"].labels is None
    assert found.settings["active"]["label_column"] == "default"
    assert found.shared == 30


def test_several_passive_parties_of_one_table(files: Files) -> None:
    request = files.split(passive_columns=("spent", "v*, town"), encode={"town": "ordinal"}, drop=("job",))
    found = examined(request)
    assert request.tables.passive_names == ("passive-1", "passive-2")
    assert names(found) == {"active": ["age"], "passive-1": ["spent"], "passive-2": ["visits", "town"]}
    assert found.settings["passive-2"]["encode"] == {"town": "ordinal"}
    assert "encode" not in found.settings["passive-1"]


def test_a_split_file_without_a_header_is_told_of_once(files: Files) -> None:
    request = files.split()
    path = Path(request.tables.data)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    (told,) = faults(request)
    assert told.startswith("active (all.csv): The first line looks like a row of data")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"active_columns": ()}, r"contradicts|names a file: say which"),
        ({"active_columns": (), "label": ""}, r"names a file: say which of its columns"),
        ({"data": "wine"}, "registered data set, which --parties deals out"),
        ({"label": ""}, "--label as well"),
    ],
)
def test_half_a_split(files: Files, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        files.split(**changes)


def test_columns_of_a_registered_data_set_are_no_choice() -> None:
    with pytest.raises(ValueError, match="for tables of your own"):
        AuditRequest.of(data="wine", drop=("ash",))


def shown(*plans: ColumnPlan, source: str = "bank.csv") -> str:
    table = TypedTable(("1", "2"), pd.DataFrame(), plans, read_as="UTF-8 text separated by bars")
    told = io.StringIO()
    examined = ExaminedTables({"active": {"data": source}}, {"active": table}, 2)
    print_tables(Console(file=told, width=120), examined, None)
    return told.getvalue()


def test_columns_and_warnings_are_shown() -> None:
    text = shown(
        ColumnPlan("age", "numbers from 17 to 98", "number", "1 feature"),
        ColumnPlan(
            "note", "text", "drop", "left out: most rows have a text of their own", "Hardly a value occurs twice."
        ),
    )
    assert "active: bank.csv, 2 rows, UTF-8 text separated by bars" in text
    for words in ("age", "numbers from 17 to 98", "1 feature", "left out", "note: Hardly a value occurs twice."):
        assert words in text
    assert "2 records are in all tables." in text


def test_of_many_columns_plain_numbers_give_way() -> None:
    plain = [ColumnPlan(f"n{at}", "numbers from 0 to 1", "number", "1 feature") for at in range(99)]
    odd = ColumnPlan("job", "12 categories", "onehot", "12 features, one per category")
    text = shown(*plain, odd)
    assert "12 categories" in text
    assert "and 60 more" in text
    assert "n38" in text
    assert "n39" not in text


@pytest.mark.parametrize("name", ["[red]x[/red]", "\x1b]0;title\x07"])
def test_names_obey_no_terminal(name: str) -> None:
    text = shown(ColumnPlan(name, "0 or 1", "number", "1 feature", "Mind."))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert ("[red]x[/red]" in text) == name.startswith("[")


def test_a_database_is_shown_without_its_password() -> None:
    assert "secret" not in shown(source="postgresql://u:secret@h/d?table=t")


def test_every_column_says_the_digits_that_it_takes() -> None:
    frame = pd.DataFrame(
        {
            "age": [17.0, 98.0, 40.0],
            "pay": [0.01, 1234.56, 8.25],
            "job": pd.Categorical(["clerk", "smith", "clerk"]),
            "kids": [2.0, None, 0.0],
        }
    )
    plans = tuple(ColumnPlan(name, "", "onehot" if name == "job" else "number", "") for name in frame.columns)
    table = TypedTable(("1", "2", "3"), frame, plans)
    examined = ExaminedTables({"active": {"data": "bank.csv"}}, {"active": table}, 3)
    told = {}
    for encoder in ("minmax", "standardise", None):
        text = io.StringIO()
        print_tables(Console(file=text, width=120), examined, encoder)
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.getvalue().splitlines()]
        told[encoder] = {row[0]: row[-1] for row in rows if row}
    assert told["minmax"] == {"age": "8", "pay": "full", "job": "1 each", "kids": "8 and 1"}
    assert told["standardise"] == {"age": "full", "pay": "full", "job": "1 each", "kids": "full and 1"}
    assert set(told[None].values()) == {"full"}


def test_rows_without_a_label_stand_where_nothing_is_trained(files: Files) -> None:
    files.bank["default"] = [("yes", "no", "NA")[row % 3] if row < 9 else ("yes", "no")[row % 2] for row in range(30)]
    assert "--unlabelled predict" in faults(files.request())[0]
    found = examined(files.request(unlabelled="predict"))
    assert found.settings["active"]["unlabelled"] == "predict"
    assert "unlabelled" not in found.settings["passive"]
    parties = {party: Settings(**own) for party, own in found.settings.items()}
    joined = JoinedTables(parties, found.tables)
    assert sorted(joined.ids[row] for row in np.flatnonzero(joined.labels < 0)) == ["002", "005", "008"]
    assert len(joined.split.test) == 3
    assert (joined.labels[np.concatenate([joined.split.train, joined.split.validation, joined.split.test])] >= 0).all()


def test_every_plan_shows_the_classes_with_their_records(files: Files) -> None:
    files.bank["default"] = ["[b]rare", *(("yes", "no")[row % 2] for row in range(29))]
    told = io.StringIO()
    prepare(files.request(dry_run=True, cipher="plain"), Console(file=told, width=200))
    assert "Classes of the label, with their records: [b]rare 1, no 14, yes 15." in told.getvalue()
    assert "Classes of fewer than 5 records: [b]rare (1)." in told.getvalue()
    told = io.StringIO()
    prepare(AuditRequest.of(data="wine", dry_run=True, cipher="plain", attacks=()), Console(file=told, width=200))
    assert "Classes of the label, with their records: class_0 5" in told.getvalue()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"unlabelled": "keep"}, "--unlabelled is refuse or predict, got 'keep'"),
        (
            {"ignore_in_labels": ("cases",)},
            "--ignore-in-labels is zeros, case, unicode, marks or booleans, got 'cases'. Did you mean 'case'",
        ),
    ],
)
def test_words_that_no_rule_has(files: Files, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        files.request(**asked)


def test_records_that_would_meet_as_well_are_counted(files: Files) -> None:
    """Zeros in one table, none in the other: a part meets, which is no random one."""
    files.bank["client"], files.shop["client"] = (
        [str(row) for row in range(1, 31)],
        [f"{row:02d}" for row in range(1, 31)],
    )
    found = examined(files.request())
    assert found.shared == 21
    assert found.notes[0].startswith("21 of 30 records met; 9 more would if leading zeros didn't count")
    told = io.StringIO()
    print_tables(Console(file=told, width=200), found, "minmax")
    assert found.notes[0] in told.getvalue()
    merged = examined(files.request(ignore_in_ids=("zeros",)))
    assert (merged.shared, merged.notes) == (30, ())
    assert {own["ignore_in_ids"] for own in merged.settings.values()} == {("zeros",)}
    parties = {party: Settings(**own) for party, own in merged.settings.items()}
    assert len(JoinedTables(parties).ids) == 30


def test_how_files_are_read_goes_to_the_party_that_is_meant(files: Files) -> None:
    request = files.request(
        encoding=("cp1251", "passive:gb18030"), missing=("-1", "passive:spent=-9", "active:age=99"), sheet=("active:A",)
    )
    active, passive = request.tables.party_settings.values()
    assert (active["encoding"], passive["encoding"]) == ("cp1251", "gb18030")
    assert (active["missing"], passive["missing"]) == (("-1", "age=99"), ("-1", "spent=-9"))
    assert (active["sheet"], "sheet" in passive) == ("A", False)
    files.shop["town"] = ["北京", "上海", "广州"] * 10
    request = files.request(missing=("spent=0",))
    (files.folder / "shop.csv").write_bytes((files.folder / "shop.csv").read_text().encode("gb18030"))
    found = examined(request)
    assert "a guess by its letters" in found.tables["passive"].notes[0]
    assert "missing" in found.tables["passive"].plans[0].found
    assert examined(request.changed(encoding=("passive:gb18030",))).tables["passive"].frame["town"][0] == "北京"
    assert "'spend=0'" not in faults(request.changed(missing=("spend=0",)))[0]
    assert "No table has a column 'spend', which --missing names." in faults(request.changed(missing=("spend=0",)))[0]
    with pytest.raises(
        ValueError, match="--encoding is one of text, such as gb18030 or windows-1251, got 'passive:gbx'"
    ):
        files.request(encoding=("passive:gbx",))
