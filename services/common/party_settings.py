"""Settings of who a party is and of the table that it brings."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from services.common.setting_texts import from_json, is_address, listed, pairs
from vfl.data.cell_forms import ID_FORMS, LABEL_FORMS
from vfl.data.columns import ENCODINGS, AskedEncoding
from vfl.data.encodings import is_encoding
from vfl.data.reading_rules import ReadingRules, Unlabelled
from vfl.data.table_limits import TableLimits
from vfl.suggestions import did_you_mean


class PartySettings(BaseSettings):
    """Where a party serves, who the others are, and how its table is read."""

    name: str = Field("", description="This party's name; default: its role.")
    listen: str = Field("127.0.0.1:50051", min_length=1, description="Address to serve on, HOST:PORT.")
    peers: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="The others: coordinator=HOST:PORT,active=HOST:PORT,NAME=HOST:PORT (the rest are passive).",
    )
    transport: Literal["mtls", "insecure"] = Field(
        "mtls", description="insecure: no TLS and no checked identities. For tests only."
    )
    certs: Path = Field(Path("certs"), description="Folder of ca.crt, NAME.crt and NAME.key.")

    data: str = Field(
        "",
        description="A .csv or .parquet file, a folder of such parts, a SQLAlchemy URL with ?table=NAME, or a "
        "registered data set.",
    )
    data_dir: Path = Field(Path("data"), description="Folder of the registry's raw files.")
    share: str = Field(
        "",
        description="K/N: with a registered data set, this party's share of its columns (1/N is the active one).",
    )
    missing_fraction: float = Field(
        0.02, ge=0, lt=1, description="Rows that each share of a registered data set lacks."
    )
    whole_row_unit_norm: bool = Field(
        False, description="SIMULATION, with a registered data set: rows of norm 1 over all parties' columns (Hu)."
    )
    id_column: str = Field("id", min_length=1, description="Column of the record ids.")
    label_column: str = Field("", description="Column of the labels; the active party's only.")
    columns: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Columns of this party's table to use: names and patterns, age,income,c*, or a JSON list; default: "
        "all besides id and label.",
    )
    drop: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Columns of this party's table to leave out: names and patterns, or a JSON list."
    )
    public: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Columns of this party's table whose values are published: no secret, and known to any guess."
    )
    sensitive: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Columns of this party's table to protect first: they come first in verdicts."
    )
    encode: Annotated[dict[str, AskedEncoding], NoDecode] = Field(
        default_factory=dict,
        description="What columns become, where it isn't what they look like: zip=onehot,age=number, or a JSON object; "
        f"{', '.join(ENCODINGS)}.",
    )
    encoding: str = Field(
        "", description="Of this party's text file, as Python calls it: gb18030, windows-1251; default: found out."
    )
    sheet: str = Field("", description="Of this party's workbook, by its name; default: the first that isn't hidden.")
    missing: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="What stands for no value in this party's table: -9999,age=-1, or a JSON list."
    )
    unlabelled: Unlabelled = Field(
        "refuse",
        description="Active party: predict, where rows may have no label: predicted, neither trained on nor judged.",
    )
    ignore_in_labels: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description=f"Active party: what doesn't make two classes of one: {', '.join(LABEL_FORMS)}."
    )
    ignore_in_ids: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description=f"What doesn't make two ids of one, the same at all parties: {', '.join(ID_FORMS)}."
    )
    table_megabytes: int = Field(
        TableLimits.megabytes,
        ge=1,
        description="A larger table of this party's isn't read: megabytes when unpacked; a workbook's count 4 times.",
    )
    table_columns: int = Field(TableLimits.columns, ge=1, description="As many columns are read of a table.")
    table_cells: int = Field(
        TableLimits.cells,
        ge=1,
        description="As many cells are read of a table; a workbook's count 20 times, a database's twice.",
    )
    encoder: Literal["minmax", "standardise", "unit_norm", "none"] = Field(
        "minmax", description="How this party scales its own columns."
    )

    @field_validator("peers", mode="before")
    @classmethod
    def _parse_peers(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        peers = {}
        for entry in filter(None, (part.strip() for part in value.split(","))):
            name, separator, address = entry.partition("=")
            if not separator or not is_address(address.strip(), least_port=1):
                raise ValueError(f"expected NAME=HOST:PORT, got {entry!r}")
            peers[name.strip()] = address.strip()
        return peers

    @field_validator("share")
    @classmethod
    def _check_share(cls, value: str) -> str:
        if value:
            index, _, count = value.partition("/")
            if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
                raise ValueError(f"expected K/N with 1 <= K <= N, such as 1/2, got {value!r}")
        return value

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str) -> str:
        if value and not is_encoding(value):
            raise ValueError(f"expected an encoding of text, such as gb18030 or windows-1251, got {value!r}")
        return value

    @field_validator("columns", "drop", "public", "sensitive", "missing", mode="before")
    @classmethod
    def _parse_columns(cls, value: Any) -> Any:
        # A name may hold a comma: then the list is JSON.
        if isinstance(value, str) and value.lstrip().startswith("["):
            return from_json(value, 'a JSON list such as ["age", "c*"]')
        return listed(value) if isinstance(value, str) else value

    @field_validator("ignore_in_ids", "ignore_in_labels", mode="before")
    @classmethod
    def _parse_forms(cls, value: Any, info: ValidationInfo) -> Any:
        names = listed(value) if isinstance(value, str) else value
        known = ID_FORMS if info.field_name == "ignore_in_ids" else LABEL_FORMS
        if unknown := [name for name in names if name not in known]:
            raise ValueError(
                f"expected some of {', '.join(known)}; got {unknown[0]!r}.{did_you_mean(unknown[0], known)}"
            )
        return names

    @field_validator("encode", mode="before")
    @classmethod
    def _parse_encode(cls, value: Any) -> Any:
        if isinstance(value, str):
            is_json = value.lstrip().startswith("{")
            value = from_json(value, 'a JSON object such as {"zip": "onehot"}') if is_json else pairs(value)
        for column, encoding in value.items() if isinstance(value, Mapping) else ():
            if encoding not in ENCODINGS:
                known = ", ".join(ENCODINGS)
                meant = did_you_mean(str(encoding), ENCODINGS)
                raise ValueError(f"column {column!r} can become one of {known}; got {encoding!r}.{meant}")
        return value

    @property
    def table_limits(self) -> TableLimits:
        """How large a table of this party's may be."""
        return TableLimits(self.table_megabytes, self.table_columns, self.table_cells)

    @property
    def reading_rules(self) -> ReadingRules:
        """How this party's table is read."""
        return ReadingRules(**{one.name: getattr(self, one.name) for one in fields(ReadingRules)})
