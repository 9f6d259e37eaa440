"""Tables that take down who believes them: each a function that writes a file and says where it is.

Every cell that could be read holds `CELL`: it must be in nothing that is printed.
"""

import gzip
import io
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CELL = "Geheim"
_ROWS = "".join(f"p{row},{CELL}{row},{CELL.lower()}{row % 7}\n" for row in range(200))
_PLAIN = f"id,town,street\n{_ROWS}".encode()
_NUMBERS = "id,x,y\n" + "".join(f"{row},{row}.5,{row % 3}\n" for row in range(200))
_MEGABYTE = 1 << 20


# --- text ---------------------------------------------------------------------------------------------------


def _at(content: bytes, place: int, put: bytes, instead: int = 0) -> bytes:
    return content[:place] + put + content[place + instead :]


def _packed(part: bytes, times: int, head: bytes = b"") -> bytes:
    """A gzip of a part many times over: members follow each other."""
    return gzip.compress(head) + gzip.compress(part) * times


TEXTS: dict[str, Callable[[], bytes]] = {
    "a zero byte in the header": lambda: _at(_PLAIN, 3, b"\x00"),
    "a zero byte in place of a letter": lambda: _at(_PLAIN, 5, b"\x00", 1),
    "a zero byte in the first row": lambda: _at(_PLAIN, 40, b"\x00"),
    "a zero byte at the end": lambda: _PLAIN + b"\x00",
    "zero bytes of both parities": lambda: _at(_at(_PLAIN, 100, b"\x00"), 201, b"\x00"),
    "every other byte a zero, and not the header's": lambda: _PLAIN[:60] + _PLAIN[60:].decode().encode("utf-16-le"),
    "UTF-16 that loses a byte": lambda: _at(_PLAIN.decode().encode("utf-16-le"), 9, b"", 1),
    "UTF-16 whose mark is turned": lambda: b"\xfe\xff" + _PLAIN.decode().encode("utf-16-le"),
    "the mark of UTF-16 before plain letters": lambda: b"\xff\xfe" + _PLAIN[: len(_PLAIN) // 2 * 2],
    "the mark of UTF-32 before plain letters": lambda: b"\xff\xfe\x00\x00" + _PLAIN[: len(_PLAIN) // 4 * 4],
    "random bytes": lambda: np.random.default_rng(0).bytes(100_000),
    "random bytes without a zero": lambda: np.random.default_rng(0).bytes(100_000).replace(b"\x00", b""),
    "one line": lambda: _PLAIN.replace(b"\n", b",") * 500,
    "one name of megabytes": lambda: b"id;" + _PLAIN.replace(b"\n", b" ").replace(b",", b" ") * 500 + b"\n1;2\n",
    "an open quote in the header": lambda: _at(_PLAIN, 3, b'"'),
    "an open quote in a row": lambda: _at(_PLAIN, 40, b'"'),
    "an open quote in every row": lambda: _PLAIN.replace(b",", b',"'),
    "quotes alone": lambda: b'"' * 100_001,
    "a cell of megabytes": lambda: _PLAIN + b"q," + CELL.encode() * _MEGABYTE + b",z\n",
    "rows of one cell below a wide header": lambda: (
        (",".join(["id", *map(str, range(4_900))]) + "\n").replace(",", ",c") + "1\n" * 3_000_000
    ).encode(),
    "rows of one cell": lambda: b"id,x\n" + b"1\n" * 3_000_000,
    "quotes that close in the next row": lambda: _PLAIN + b'q,"a,b\n' * 3_000_000,
    "a quote that swallows all": lambda: _PLAIN[:15] + b'q,"' + _PLAIN * 40 + b"a,b\n",
    "a number of a million digits": lambda: _NUMBERS.encode() + b"900," + b"1" * 900_000 + b",1\n",
    "an id of ten thousand letters": lambda: _PLAIN + CELL.encode() * 2_000 + b",a,b\n",
    "labels of five thousand digits": lambda: (
        b"id,x,label\n" + b"".join(b"%d,%d,%s%d\n" % (at, at, b"7" * 5_000, at % 2) for at in range(60))
    ),
    "a hundred thousand columns": lambda: (
        ",".join(["id", *(f"c{at}" for at in range(100_000))]).encode() + b"\n" + b"1," * 100_000 + b"1\n"
    ),
    "a million names in one line": lambda: b"id," * _MEGABYTE + b"\n1\n",
    "all columns of one name": lambda: b"id" + b",x" * 4_000 + b"\n" + (b"1" + b",2" * 4_000 + b"\n") * 3,
    "long names": lambda: ",".join(f"name{at}" * 90 for at in range(1_000)).encode() + b"\n" + b"a," * 999 + b"b\n",
    "rows of any length": lambda: b"id,a,b\n" + (b"1,2\n" + b"1,2,3,4\n") * 200_000,
    "rows of nothing": lambda: _PLAIN + b",,\n" * 2_000_000,
    "lines of nothing": lambda: _PLAIN + b"\n" * 60_000_000,
    "separators alone": lambda: b"," * 4_000 + b"\n" + (b"," * 4_000 + b"\n") * 20,
    "a quote for a separator": lambda: b'sep="\n' + _PLAIN,
    "a separator of two bytes": lambda: "sep=é\n".encode() + _PLAIN,
    "no header": lambda: "".join(f"{row},{CELL}{row},{row}.25\n" for row in range(99)).encode(),
    "no header and few numbers": lambda: "".join(f"{CELL}{row},a,b,c,d,e,f,{row}.25\n" for row in range(99)).encode(),
    "names that move a cursor": lambda: _at(_PLAIN, 3, b"\x1b[2J\x1b]0;x\x07"),
    "a text of another century": lambda: (
        b"id,when\n" + b"".join(b"%d,0000-00-%02d 99:99\n" % (at, at % 90) for at in range(5_000))
    ),
    "dates of the Middle Ages": lambda: (
        b"id,when\n" + b"".join(b"%d,%02d.03.1%03d\n" % (at, at % 28 + 1, at) for at in range(900))
    ),
}
PACKED: dict[str, Callable[[], bytes]] = {
    "two megabytes that unpack to four gigabytes": lambda: _packed(b"1,1,1\n" * 700_000, 1_000, b"id,x,y\n"),
    "one cell that unpacks to gigabytes": lambda: _packed(b"a" * 4 * _MEGABYTE, 500, b"id,x\n1,"),
    "a cell that just fits": lambda: _packed(b"a" * 4 * _MEGABYTE, 62, b"id,x\n1,"),
    "cells of one letter": lambda: _packed(b"1,1,1\n" * 700_000, 30, b"id,x,y\n"),
    "packed twice": lambda: gzip.compress(_packed(b"1" * _MEGABYTE, 500)),
    "an archive within": lambda: gzip.compress(workbook("")),
    "cut off": lambda: gzip.compress(_PLAIN * 50)[:-40],
    "damaged within": lambda: _at(gzip.compress(_PLAIN * 50), 300, b"\xff\xff\xff\xff", 4),
    "followed by another file": lambda: gzip.compress(_PLAIN) + _PLAIN,
}


# --- workbooks ----------------------------------------------------------------------------------------------

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_TABLE = (
    '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="inlineStr"><is><t>x</t></is></c></row>'
    f'<row r="2"><c r="A2"><v>1</v></c><c r="B2" t="inlineStr"><is><t>{CELL}</t></is></c></row>'
)


def workbook(
    rows: str | bytes, parts: dict[str, str | bytes] | None = None, sheets: int = 1, before: str = ""
) -> bytes:
    """A workbook whose first sheet has this XML for rows; further parts replace those that it has."""
    body = rows if isinstance(rows, bytes) else rows.encode()
    named = "".join(f'<sheet name="S{at}" sheetId="{at + 1}" r:id="r1"/>' for at in range(sheets))
    made: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" '
        f'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
        f'<Override PartName="/xl/sharedStrings.xml" ContentType="{_TYPE}.sharedStrings+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r0" '
        f'Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>{named}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_LINKS}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}"/>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"/>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}">{before}<sheetData>'.encode()
        + body
        + b"</sheetData></worksheet>",
        **(parts or {}),
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in made.items():
            archive.writestr(name, text)
    return content.getvalue()


def _styled(what: str) -> dict[str, str | bytes]:
    return {"xl/styles.xml": f'<styleSheet xmlns="{_MAIN}">{what}</styleSheet>'}


def _shared(what: str) -> dict[str, str | bytes]:
    return {"xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}">{what}</sst>'}


def _cell(value: str, kind: str = "n", style: str = "") -> str:
    return _TABLE + f'<row r="3"><c r="A3"><v>2</v></c><c r="B3" t="{kind}"{style}><v>{value}</v></c></row>'


def _doctype(what: str) -> dict[str, str | bytes]:
    return {"xl/sharedStrings.xml": f'<!DOCTYPE sst [{what}]><sst xmlns="{_MAIN}"><si><t>&j;</t></si></sst>'}


_LAUGHS = '<!ENTITY a "haha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
_FAR = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
WORKBOOKS: dict[str, Callable[[], bytes]] = {
    "one far cell": lambda: workbook(_FAR),
    "a table and a far cell": lambda: workbook(_TABLE + _FAR),
    "a size that isn't true": lambda: workbook(_TABLE, before='<dimension ref="A1:XFD1048576"/>'),
    "a size of other letters": lambda: workbook(_TABLE, before='<dimension ref="A1:ZZZZZ99999999999"/>'),
    "a far cell in every row": lambda: workbook(
        "".join(f'<row r="{at}"><c r="XFD{at}"><v>1</v></c></row>' for at in range(1, 20_000))
    ),
    "rows of one letter": lambda: workbook(b"<row><c><v>1</v></c><c><v>1</v></c></row>" * 3_000_000),
    "one row of cells": lambda: workbook(b"<row>" + b"<c/>" * 9_000_000 + b"</row>"),
    "one cell of parts": lambda: workbook(b"<row><c>" + b"<v/>" * 3_000_000 + b"</c></row>"),
    "a row that goes backwards": lambda: workbook(_TABLE + '<row r="-5"><c r="A1"><v>1</v></c></row>'),
    "a row of a number that is none": lambda: workbook(_TABLE + '<row r="x"><c r="7"><v>1</v></c></row>'),
    "zero bytes in place of a sheet": lambda: workbook(_TABLE, {"xl/worksheets/sheet1.xml": b"\x00" * 300 * _MEGABYTE}),
    "shared texts": lambda: workbook(_TABLE, _shared("<si/>" * 3_000_000)),
    "one shared text of runs": lambda: workbook(_TABLE, _shared("<si>" + "<r><t>a</t></r>" * 900_000 + "</si>")),
    "words of its own": lambda: workbook(_cell("0", "s"), _doctype(_LAUGHS)),
    "a file of this machine": lambda: workbook(_cell("0", "s"), _doctype('<!ENTITY j SYSTEM "file:///etc/passwd">')),
    "styles": lambda: workbook(_TABLE, _styled("<cellXfs>" + "<xf/>" * 900_000 + "</cellXfs>")),
    "elements a hundred thousand deep": lambda: workbook(_TABLE, _styled("<a>" * 100_000 + "</a>" * 100_000)),
    "a tag of megabytes": lambda: workbook(_TABLE, _styled(f'<a b="{"x" * 9 * _MEGABYTE}"/>')),
    "many attributes": lambda: workbook(_TABLE, _styled("<a " + " ".join(f'a{at}=""' for at in range(500_000)) + "/>")),
    "a thousand sheets that are one part": lambda: workbook(_TABLE, before="<x/>" * 100_000, sheets=1_000),
    "a shared text that isn't there": lambda: workbook(_cell("77", "s")),
    "a date beyond all": lambda: workbook(
        _cell("1e300", style=' s="0"'), _styled('<cellXfs><xf numFmtId="14"/></cellXfs>')
    ),
    "a number of four thousand digits": lambda: workbook(_cell("9" * 4_000)),
    "a number of a million digits in a workbook": lambda: workbook(_cell("9" * 1_000_000)),
    "a date that is none": lambda: workbook(_cell(CELL, "d")),
    "a number that is none": lambda: workbook(_cell(CELL)),
    "XML that ends": lambda: workbook(_TABLE, {"xl/workbook.xml": "<workbook"}),
    "no sheet": lambda: workbook("", sheets=0),
    "no parts": lambda: workbook(_TABLE, {"[Content_Types].xml": "<Types/>"}),
    "an archive that ends": lambda: workbook(_TABLE)[:-30],
    "an archive that is damaged": lambda: _at(workbook(_TABLE * 50), 900, b"\xff" * 60, 60),
    "an archive with a password": lambda: workbook(_TABLE).replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
    ),
    "a part that says less than it holds": lambda: _understated(workbook(b"<row><c/></row>" * 900_000)),
}


def _understated(content: bytes) -> bytes:
    """The same archive, whose directory says that every part has a hundred bytes."""
    at = content.index(b"PK\x01\x02")
    head, directory = content[:at], content[at:]
    for place in [place for place in range(len(directory)) if directory.startswith(b"PK\x01\x02", place)]:
        directory = _at(directory, place + 24, (100).to_bytes(4, "little"), 4)
    return head + directory


# --- Parquet ------------------------------------------------------------------------------------------------


def _parquet(**columns: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content, compression="zstd")
    return content.getvalue()


def _repeated(value: Any, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


_IDS = [f"p{row}" for row in range(1_000)]
PARQUET: dict[str, Callable[[], bytes]] = {
    "one value in thirty million rows": lambda: _parquet(id=_repeated(1, 30_000_000)),
    "a text of a megabyte in every row": lambda: _parquet(id=_IDS, x=_repeated(CELL * 200_000, 1_000)),
    "ids of a megabyte": lambda: _parquet(id=_repeated(CELL * 200_000, 1_000), x=list(range(1_000))),
    "lists of nothing": lambda: _parquet(
        id=_IDS, x=pa.ListArray.from_arrays([0, *[20_000_000] * 1_000], pa.nulls(20_000_000, pa.int8()))
    ),
    "types within types": lambda: _parquet(id=_IDS, x=pa.array([{"a": {"b": [{"c": CELL}]}}] * 1_000)),
    "bytes": lambda: _parquet(id=_IDS, x=[CELL.encode()] * 1_000),
    "many columns of Parquet": lambda: _parquet(**{f"c{at}": [1] for at in range(6_000)}),
    "Parquet that ends": lambda: _parquet(id=_IDS, x=_IDS)[:-20],
    "Parquet whose footer is damaged": lambda: _at(_parquet(id=_IDS, x=_IDS), -60, b"\xff" * 9, 9),
    "Parquet whose pages are damaged": lambda: _at(_parquet(id=_IDS, x=_IDS), 30, b"\xff" * 90, 90),
    "no Parquet": lambda: b"PAR1" + _PLAIN + b"\xff\xff\xff\x7fPAR1",
}


# --- databases ----------------------------------------------------------------------------------------------

_COUNT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
DATABASES: dict[str, str] = {
    "a view without an end": "CREATE VIEW t AS COUNT SELECT x AS id, x AS y FROM n",
    "a view without a row": "CREATE VIEW t AS COUNT SELECT x AS id, x AS y FROM n WHERE x < 0",
    "a view of large cells": "CREATE VIEW t AS COUNT SELECT x AS id, hex(zeroblob(9000000)) AS y FROM n LIMIT 999",
    "a cell of a gigabyte": "CREATE VIEW t AS SELECT 1 AS id, zeroblob(999999999) AS y",
    "a text that isn't Unicode": "CREATE TABLE t (id, y); INSERT INTO t VALUES (1, CAST(x'ff' || 'CELL' AS TEXT))",
    "a date that is text": "CREATE TABLE t (id, y DATE); INSERT INTO t VALUES (1, 'CELL')",
    "a number that is text": "CREATE TABLE t (id, y NUMERIC); INSERT INTO t VALUES (1, 'CELL')",
    "a time that is text": "CREATE TABLE t (id, y DATETIME); INSERT INTO t VALUES (1, 'CELL')",
    "a view of a table that is gone": "CREATE TABLE s (id); CREATE VIEW t AS SELECT * FROM s; DROP TABLE s",
    "a view that stumbles over a cell": "CREATE VIEW t AS SELECT 1 AS id, json_extract('CELL', '$') AS y",
}


def _database(statements: str, folder: Path) -> str:
    path = folder / "t.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(statements.replace("COUNT", _COUNT).replace("CELL", CELL))
    connection.close()
    return f"sqlite:///{path}?table=t"


def _file(content: bytes, folder: Path, name: str) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


_FILES = (("t.csv", TEXTS), ("t.csv.gz", PACKED), ("t.xlsx", WORKBOOKS), ("t.parquet", PARQUET))
# By name, what writes the table into a folder and returns its source.
TABLES: dict[str, Callable[[Path], str]] = {
    **{
        what: lambda folder, make=make, name=name: _file(make(), folder, name)  # type: ignore[misc]
        for name, made in _FILES
        for what, make in made.items()
    },
    **{what: lambda folder, ddl=ddl: _database(ddl, folder) for what, ddl in DATABASES.items()},  # type: ignore[misc]
}
