"""What people do wrong, each through the real command: a sentence that says what to do, and nothing left behind."""

import csv
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from plumbline.__main__ import main
from plumbline.processes import LocalProcesses
from services.common.certificates import create_federation_certificates
from services.common.identity import Identity, role_of

TABLES = ("--active", "bank.csv", "--passive", "shop.csv", "--label", "default", "--id", "client")
Rows = Sequence[Sequence[object]]


def bank(rows: int = 60) -> Rows:
    return [
        ["client", "age", "default"],
        *([f"c{row}", 20 + row % 50, ("yes", "no")[row % 3 == 0]] for row in range(rows)),
    ]


def shop(rows: int = 60) -> Rows:
    return [["client", "spent", "visits"], *([f"c{row}", row * 1.5, row % 7] for row in range(rows))]


def changed(table: Rows, column: int, value: Callable[[int], object]) -> Rows:
    """A table with another value in every row of a column."""
    return [table[0], *([*row[:column], value(index), *row[column + 1 :]] for index, row in enumerate(table[1:]))]


def write(path: str, rows: Rows) -> None:
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two good tables; whatever goes wrong here, no process may start and no file may come."""

    def start(processes: LocalProcesses) -> None:
        raise AssertionError("A process was started for a mistake that can be told before.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalProcesses, "start", start)
    write("bank.csv", bank())
    write("shop.csv", shop())
    before = {path.name for path in tmp_path.iterdir()}
    yield tmp_path
    assert {path.name for path in tmp_path.iterdir()} - before <= {"mistake"}


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What the command says, run as its entry point is; it must end with status 2."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["plumbline", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        written = capfd.readouterr()
        assert ended.value.code == 2, written.err
        assert "Traceback" not in written.err
        complaints = written.err.strip().splitlines()
        assert complaints[0].startswith("plumbline: "), written.err
        assert len(complaints) == 1, written.err
        return complaints[0].removeprefix("plumbline: ")

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audti",), "No such command 'audti'. Did you mean 'audit'?"),
        (("audit", "--data", "wine", "--partys", "3"), "No such option: --partys"),
        (("audit", "--data", "wine", "--parties", "many"), "--parties: expected a whole number, got 'many'"),
        (("audit", "--data", "whine"), "There is no data set 'whine'; the known ones are"),
        (("audit", "--data", "whine"), "Did you mean 'wine'?"),
        (("audit", "--data", "wine", "--attacks", "halfstar"), "Did you mean 'half_star'?"),
        (("audit", "--data", "wine", "--defences", "dp-noise"), "Did you mean 'dp_noise'?"),
        (("audit", "--data", "wine", "--set", "epoch=3"), "There is no setting 'epoch'. Did you mean 'epochs'?"),
        (("audit", "--data", "wine", "--set", "epochs=many"), "--epochs: expected a whole number, got 'many'"),
        (("audit", "--data", "wine", "--encode", "age=one-hot"), "Did you mean 'onehot'?"),
        (
            ("audit", *TABLES[:4]),
            "Give --data NAME (see `plumbline datasets`), or all of --active, --passive and --label.",
        ),
        (("audit", "--data", "wine", *TABLES), "--data contradicts --active, --passive and --label"),
        (("audit", "--data", "wine", "--cipher", "plain", "--set", "cipher=paillier"), "--cipher plain contradicts"),
        (("audit", "--data", "wine", "--epochs", "2", "--set", "epochs=3"), "--epochs and --set epochs= say the same"),
        (("audit", "--data", "wine", "--quiet", "--verbose"), "--quiet contradicts --verbose"),
        (("audit", "--data", "wine", "--name", "a/b"), "--name is part of the name of the run's folder"),
        (("audit", "--data", "wine", "--parties", "15"), "13 columns cannot give each of 15 parties at least one"),
        (("audit", "--data", "wine", "--runs", "/proc/runs"), "Cannot use /proc/runs"),
        (("audit", "--config", "missing.toml"), "Cannot use missing.toml (No such file or directory)"),
        (("attacks", "gai"), "Did you mean 'gia'?"),
        (("report", "latest"), "There is no run in runs"),
        (("preflight", "shop.csv", "--classes", "2", "--id", "clint"), "Did you mean 'client'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_asked_for_wrongly(said: Callable[..., str], arguments: tuple[str, ...], words: str) -> None:
    assert words in said(*arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('data = "wine"\nepoch = 3\n', "mistake, line 2: there is no option 'epoch'. Did you mean 'epochs'?"),
        ("data = wine\n", "mistake is no TOML: invalid value (at line 1, column 8)."),
    ],
)
def test_a_file_of_options_that_is_wrong(said: Callable[..., str], text: str, words: str) -> None:
    Path("mistake").write_text(text)
    assert words in said("audit", "--config", "mistake")


def test_an_option_of_an_attack_that_it_has_not(said: Callable[..., str]) -> None:
    options = 'attack_options={"gia": {"innit": "half"}}'
    words = said("audit", "--data", "wine", "--attacks", "gia", "--set", options)
    assert "gia can't take innit." in words
    assert "Did you mean 'init'?" in words


@pytest.mark.parametrize(
    ("table", "rows", "words"),
    [
        ("bank.csv", changed(bank(), 2, lambda row: row * 1.37), "'default' looks like a number, not a class"),
        ("bank.csv", changed(bank(600), 2, lambda row: f"k{row % 200}"), "200 classes"),
        ("bank.csv", changed(bank(), 2, lambda _: "yes"), "one class only"),
        (
            "bank.csv",
            changed(bank(), 2, lambda row: "" if row % 5 == 0 else "yn"[row % 2]),
            "is empty in rows 1, 6, 11",
        ),
        ("bank.csv", [["client", "age", "defalt"], *bank()[1:]], "Did you mean 'defalt'?"),
        ("shop.csv", changed(shop(), 0, lambda row: f"other{row}x"), "No id is in all tables"),
        ("shop.csv", changed(shop(), 0, lambda row: f"c{row // 2}"), "30 rows with the id of an earlier row"),
        ("shop.csv", [["customer", "spent", "visits"], *shop()[1:]], "no id column 'client'"),
        ("shop.csv", [], "The file 'shop.csv' is empty"),
    ],
    ids=["regression", "200 classes", "one class", "gaps", "label", "no overlap", "same id", "id column", "empty"],
)
def test_a_table_that_cannot_be_used(said: Callable[..., str], table: str, rows: Rows, words: str) -> None:
    write(table, rows)
    assert words in said("audit", *TABLES)


def test_all_that_is_wrong_with_all_tables_is_told_at_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bank.csv", changed(bank(), 2, lambda _: "yes"))
    write("shop.csv", changed(shop(), 0, lambda row: f"c{row // 2}"))
    monkeypatch.setattr(sys, "argv", ["plumbline", "audit", *TABLES])
    with pytest.raises(SystemExit, match="2"):
        main()
    told = capfd.readouterr().err
    assert "one class only" in told
    assert "id of an earlier row" in told
    assert "Traceback" not in told


def test_a_file_that_is_not_there_or_no_text(said: Callable[..., str], here: Path) -> None:
    Path("shop.csv").unlink()
    assert "There is no file 'shop.csv': check the path." in said("audit", *TABLES)
    Path("shop.csv").write_bytes(b"\xff\xfe\x00\x81client,spent\n\x00\x01")
    assert "save it again, as UTF-8" in said("audit", *TABLES)


@pytest.mark.parametrize("spelled", ["{}", "{}.0"])
def test_ids_that_one_party_writes_as_numbers_and_the_other_as_text_are_the_same(
    spelled: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bank.csv", changed(bank(), 0, lambda row: row + 1))
    write("shop.csv", changed(shop(), 0, lambda row: spelled.format(row + 1)))
    monkeypatch.setattr(sys, "argv", ["plumbline", "audit", *TABLES, "--attacks", "half_star", "--dry-run"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert "60 records are in all tables." in capfd.readouterr().out


def test_a_port_where_nobody_listens(said: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> None:
    certs = tmp_path_factory.mktemp("certs")
    create_federation_certificates(certs, [Identity(role_of(name), name) for name in ("active", "operator")], days=1)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it, and nobody answers
        address = f"127.0.0.1:{held.getsockname()[1]}"
        assert address in said("status", "--address", address, "--certs", str(certs))


def test_certificates_that_are_not_there(said: Callable[..., str]) -> None:
    assert "certs" in said("status", "--address", "127.0.0.1:50051", "--certs", "nowhere")


def test_an_address_without_a_port(said: Callable[..., str]) -> None:
    assert "has no port" in said("status", "--address", "localhost", "--certs", "nowhere")


def test_a_port_that_another_program_has(
    said: Callable[..., str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    certs = tmp_path_factory.mktemp("certs")
    create_federation_certificates(certs, [Identity(role_of(name), name) for name in ("coordinator",)], days=1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name, value in {
            "LISTEN": f"127.0.0.1:{port}",
            "CERTS": str(certs),
            "PEERS": "active=127.0.0.1:1,passive=127.0.0.1:2",
        }.items():
            monkeypatch.setenv(f"PLUMBLINE_{name}", value)
        assert str(port) in said("serve", "coordinator")


def test_a_folder_that_nobody_may_write_to(said: Callable[..., str]) -> None:
    # A file, which stops even who may do everything.
    assert "Cannot use bank.csv" in said("audit", "--data", "wine", "--runs", "bank.csv")
