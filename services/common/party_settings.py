"""Settings of who a party is and of the table that it brings."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from services.common.setting_texts import (
    checked_encoding,
    checked_share,
    listed,
    read_columns,
    read_encodings,
    read_peers,
)
from vfl.data.cell_forms import ID_FORMS, LABEL_FORMS
from vfl.data.columns import ENCODINGS, AskedEncoding
from vfl.data.reading_rules import ReadingRules, Unlabelled
from vfl.data.table_limits import TableLimits
from vfl.suggestions import did_you_mean

# A name may hold a comma: then the list is JSON.
Columns: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(read_columns)]


class PartySettings(BaseSettings):
    """Where a party serves, who the others are, and how its table is read."""

    name: str = Field("", description="This party's name; default: its role.")
    listen: str = Field("127.0.0.1:50051", min_length=1, description="Address to serve on, HOST:PORT.")
    peers: Annotated[dict[str, str], NoDecode, BeforeValidator(read_peers)] = Field(
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
    share: Annotated[str, AfterValidator(checked_share)] = Field(
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
    columns: Columns = Field(
        (),
        description="Columns of this party's table to use: names and patterns, age,income,c*, or a JSON list; default: "
        "all besides id and label.",
    )
    drop: Columns = Field(
        (), description="Columns of this party's table to leave out: names and patterns, or a JSON list."
    )
    public: Columns = Field(
        (), description="Columns of this party's table whose values are published: no secret, and known to any guess."
    )
    sensitive: Columns = Field(
        (), description="Columns of this party's table to protect first: they come first in verdicts."
    )
    encode: Annotated[dict[str, AskedEncoding], NoDecode, BeforeValidator(read_encodings)] = Field(
        default_factory=dict,
        description="What columns become, where it isn't what they look like: zip=onehot,age=number, or a JSON object; "
        f"{', '.join(ENCODINGS)}.",
    )
    encoding: Annotated[str, AfterValidator(checked_encoding)] = Field(
        "", description="Of this party's text file, as Python calls it: gb18030, windows-1251; default: found out."
    )
    sheet: str = Field("", description="Of this party's workbook, by its name; default: the first that isn't hidden.")
    missing: Columns = Field(
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

    @property
    def table_limits(self) -> TableLimits:
        """How large a table of this party's may be."""
        return TableLimits(self.table_megabytes, self.table_columns, self.table_cells)

    @property
    def reading_rules(self) -> ReadingRules:
        """How this party's table is read."""
        return ReadingRules(**{one.name: getattr(self, one.name) for one in fields(ReadingRules)})
