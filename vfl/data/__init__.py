"""Data: tables and their readers, encoders, public data sets, vertical splits, private set intersection.

What stands here is public, the other modules are private. A table's rows are keyed by ids and stand in any order; two
parties put theirs into a common one without telling an id that the other lacks.

The name ``vfl.data.fetch`` is the function; its module is reached with ``from vfl.data.fetch import ...``.

Examples:
    What a party learns of its training rows, rows 0 and 1 here, makes features of all of them:

    >>> import numpy as np
    >>> from vfl.data import FittedColumns, Table, column_grids, fit_columns, grids_by_column, typed_table_of
    >>> table = typed_table_of(Table(("anna", "ben", "carl"), np.array([[10.0], [30.0], [15.0]]), ("limit",)))
    >>> fitted: FittedColumns = fit_columns(table, np.array([0, 1]), "minmax")
    >>> fitted.transform(table)
    array([[0.  ],
           [1.  ],
           [0.25]])
    >>> fitted.columns
    (EncodedColumn(name='limit', source='limit', kind='number', offset=10.0, scale=20.0),)

    A column that stands on few steps takes few digits in an encrypted product:

    >>> grids_by_column(table, "minmax")
    {'limit': (Grid(step=5.0, steps=4),)}
    >>> fitted.grids(column_grids(table, "minmax"))
    (Grid(step=0.25, steps=4),)
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
