"""Data: tables and their readers, encoders, public data sets, vertical splits, private set intersection.

What stands here is public, the other modules are private. A table's rows are keyed by ids and stand in any order; two
parties put theirs into a common one without telling an id that the other lacks.

The name ``vfl.data.fetch`` is the function; its module is reached with ``from vfl.data.fetch import ...``.

Examples:
    >>> import numpy as np
    >>> from vfl.data import fit_encoder
    >>> fit_encoder("minmax", np.array([[10.0], [30.0]])).transform(np.array([[15.0]]))
    array([[0.25]])
"""

from vfl.data.catalogue import DATASETS, dataset, dataset_names, load_dataset, missing_files, sampled_rows
from vfl.data.columns import ENCODINGS, ColumnPlan, EncodedColumn, Encoding, FeatureKind
from vfl.data.datasets import Dataset, DatasetError, DatasetNotFound, RegistryTable
from vfl.data.encoders import (
    ENCODER_KINDS,
    Encoder,
    EncoderError,
    EncoderKind,
    fit_encoder,
    is_signed,
    magnitude_bits,
    rows_to_unit_norm,
    snap_to_grid,
)
from vfl.data.faults import TableError
from vfl.data.fetch import FetchError, fetch
from vfl.data.fitting import FittedColumns, column_grids, fit_columns, grids_by_column
from vfl.data.grids import UNIT_GRID, Grid, GriddedFeatures, Width, grid_of, put_on_grids, width_of
from vfl.data.labels import class_names, encode_labels
from vfl.data.psi import (
    BlindedIds,
    EmptyIntersection,
    PsiClient,
    PsiError,
    PsiServer,
    common_order,
    rows_in_common_order,
    rows_of,
)
from vfl.data.readers import load_table
from vfl.data.split import (
    SplitError,
    column_blocks,
    party_share,
    row_ids,
)
from vfl.data.tables import Table, table_from_frame
from vfl.data.typed_tables import TypedTable, read_table, typed_table_of

__all__ = [
    "DATASETS",
    "ENCODER_KINDS",
    "ENCODINGS",
    "UNIT_GRID",
    "BlindedIds",
    "ColumnPlan",
    "Dataset",
    "DatasetError",
    "DatasetNotFound",
    "EmptyIntersection",
    "EncodedColumn",
    "Encoder",
    "EncoderError",
    "EncoderKind",
    "Encoding",
    "FeatureKind",
    "FetchError",
    "FittedColumns",
    "Grid",
    "GriddedFeatures",
    "PsiClient",
    "PsiError",
    "PsiServer",
    "RegistryTable",
    "SplitError",
    "Table",
    "TableError",
    "TypedTable",
    "Width",
    "class_names",
    "column_blocks",
    "column_grids",
    "common_order",
    "dataset",
    "dataset_names",
    "encode_labels",
    "fetch",
    "fit_columns",
    "fit_encoder",
    "grid_of",
    "grids_by_column",
    "is_signed",
    "load_dataset",
    "load_table",
    "magnitude_bits",
    "missing_files",
    "party_share",
    "put_on_grids",
    "read_table",
    "row_ids",
    "rows_in_common_order",
    "rows_of",
    "rows_to_unit_norm",
    "sampled_rows",
    "snap_to_grid",
    "table_from_frame",
    "typed_table_of",
    "width_of",
]
