"""An audit's options as a file: what is read, what is refused and where, and what is written to repeat a run."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from plumbline.audit.configuration import (
    KEYS,
    AuditOptions,
    ConfigurationError,
    asked_of,
    read_configuration,
    write_configuration,
)
from plumbline.audit.request import AuditRequest
from plumbline.cli import app
from services.common.settings import settings_of

EVERYTHING = """\
active = "bank.csv"
passive = ["fintech.csv", "sqlite:///shop.db?table=sales"]
label = "default"
id = "client"
columns = "age,c*"
drop = ["notes"]
attacks = "half_star,label_recovery"
defences = ["dp_noise"]
adversary = "passive"
black-box = true
epochs = 3
learning-rate = 0.5
cipher = "plain"
seed = 7
runs = "../runs"
fail-above = 1
yes = true
verbose = true

[encode]
age = "number"

[settings]
data_dir = "raw"
step_timeout = 30

[defence-options.dp_noise]
epsilon = 0.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "audit.toml"
    path.write_text(EVERYTHING)
    return path


def test_a_file_asks_for_what_its_options_say(file: Path) -> None:
    folder = file.parent
    assert read_configuration(file).request() == AuditRequest.of(
        active=str(folder / "bank.csv"),
        passive=(str(folder / "fintech.csv"), "sqlite:///shop.db?table=sales"),
        label="default",
        id_column="client",
        columns=("age", "c*"),
        drop=("notes",),
        encode={"age": "number"},
        attacks=("half_star", "label_recovery"),
        defences=("dp_noise",),
        adversary="passive",
        black_box=True,
        cipher="plain",
        runs=folder / "../runs",
        fail_above=1.0,
        assume_yes=True,
        verbosity="verbose",
        settings={
            "data_dir": str(folder / "raw"),
            "step_timeout": 30,
            "epochs": 3,
            "learning_rate": 0.5,
            "seed": 7,
            "defence_options": {"dp_noise": {"epsilon": 0.5}},
        },
    )


def test_one_table_split_by_columns_is_asked_for_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "split.toml"
    path.write_text('data = "all.csv"\nlabel = "y"\nactive-columns = "age"\npassive-columns = "spent,visit*"\n')
    asked = read_configuration(path).request()
    assert asked.tables.data == str(tmp_path / "all.csv")
    assert asked.tables.active_columns == ("age",)
    assert asked.tables.passive_columns == ("spent,visit*",)  # a text for each party


def test_every_option_of_the_command_can_stand_in_a_file() -> None:
    command: Any = get_command(app)
    asked = command.get_command(Context(command), "audit")
    options = {max(one.opts, key=len).removeprefix("--") for one in asked.params}
    assert options - {"config", "help", "set"} == set(KEYS) - {"settings", "attack-options", "defence-options"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('data = "wine"\nepoch = 3', "line 2: there is no option 'epoch'. Did you mean 'epochs'?"),
        ('data = "wine"\n[settings]\nkey_bit = 512', "line 3: there is no setting 'key_bit'. Did you mean 'key_bits'?"),
        ('data = "wine"\nparties = "3"', "line 2: parties takes a whole number, got '3'."),
        ('data = "wine"\nattacks = 3', "line 2: attacks takes a list, each entry a text, got 3."),
        ('data = "wine"\n\n[attacks.gia]\ninit = "half"', "line 3: attacks is a value, not a table."),
        ('data = "wine"\nencode = "age=number"', "line 2: encode is a table: [encode]."),
        ('data = "wine"\nepochs = 3\n[settings]\nepochs = 3', "line 2: epochs stands here and in [settings]"),
        ('data = "wine"\ncipher = "plain"\n[settings]\ncipher = "paillier"', "--cipher plain contradicts"),
        ("data = wine", "is no TOML: invalid value (at line 1, column 8)"),
        ("data = 'caf\xe9'", "is no text in UTF-8"),
    ],
)
def test_what_no_option_takes_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "audit.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError) as refused:
        read_configuration(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_the_command_line_wins_over_the_file() -> None:
    below = AuditOptions(
        {"data": "wine", "parties": 2, "cipher": "plain"}, {"epochs": 3, "seed": 1}, frozenset({"quiet", "json"})
    )
    above = asked_of({"parties": 3}, {"epochs": "5", "cipher": "paillier"}, frozenset({"verbose"}))
    both = above.over(below)
    assert both.fields == {"data": "wine", "parties": 3, "cipher": "paillier"}
    assert both.settings == {"epochs": "5", "seed": 1}
    assert both.said == {"verbose", "json"}


def test_what_is_written_asks_for_the_same_from_anywhere(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = read_configuration(file).request()
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.mkdir()
    written = write_configuration(run, asked, asked.federation.settings)
    monkeypatch.chdir(elsewhere)
    assert read_configuration(written).request() == asked


def test_a_path_given_on_the_command_line_is_written_from_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    request = AuditRequest.of(active="a.csv", passive=("b.csv",), label="y")
    written = tomllib.loads(write_configuration(tmp_path, request, {}).read_text())
    assert (written["active"], written["passive"]) == (str(tmp_path / "a.csv"), [str(tmp_path / "b.csv")])
    assert written["runs"] == str(tmp_path / "runs")


def test_what_the_shell_asked_for_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_EPOCHS", "2")
    monkeypatch.setenv("PLUMBLINE_DATA", "mine.csv")  # of a party that this shell serves
    monkeypatch.setenv("PLUMBLINE_ATTACK_OPTIONS", '{"gia": {"init": "half"}}')
    request = AuditRequest.of(data="wine", attacks=("gia",))
    written = write_configuration(tmp_path, request, request.recipe(request.tables.party_settings).checked().asked)
    for name in ("EPOCHS", "DATA", "ATTACK_OPTIONS"):
        monkeypatch.delenv(f"PLUMBLINE_{name}")
    again = read_configuration(written).request()
    settings = {"epochs": "2", "attack_options": {"gia": {"init": "half"}}}
    assert again == request.changed(runs=again.output.runs, settings=settings)


def test_an_option_that_is_none_survives_being_written(tmp_path: Path) -> None:
    # TOML has no word for it, and a default need not be none.
    settings = {"defence_options": {"parameter_rotation": {"epsilon": None}}}
    request = AuditRequest.of(data="wine", defences=("parameter_rotation",), settings=settings)
    again = read_configuration(write_configuration(tmp_path, request, settings)).request()
    read = settings_of({"defences": again.federation.defences, **again.federation.settings})
    assert read.defence_options == settings["defence_options"]


def test_protocols_side_by_side_are_written_as_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text('data = "wine"\nprotocol = "hu,shared"\n')
    request = read_configuration(path).request()
    assert [one.title for one in request.federation.variants] == ["protocol=hu", "protocol=shared"]
    written = write_configuration(tmp_path, request, request.federation.settings)
    assert 'protocol = "hu,shared"' in written.read_text()
    assert read_configuration(written).request().federation == request.federation
