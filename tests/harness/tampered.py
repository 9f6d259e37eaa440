"""Run folders that somebody tampered with: every file of a run, in every way that a reader might not expect."""

import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

Change = Callable[[Path], None]
HUGE = "9" * 10_000
DEEP = "[" * 100_000 + "]" * 100_000
# Of what a file may hold at most, or nearly: a reader may begin to check it.
_ENTRIES, _LISTS = 2_900_000, 1_400_000
PARTIES, ATTACKS = "parties/", "parties/attacks/"
RECORDS = (f"{PARTIES}active.json", f"{PARTIES}passive.json")
OUTCOMES = (f"{ATTACKS}outcomes.json", f"{ATTACKS}training-passive.json")
# What an audit writes of itself, whose readers need other keys than a party's.
OWN = ("config.json", "results.json", "status.json", "candidates.json")
ARRAYS = {
    f"{PARTIES}active-test-scores.npz": "scores",
    f"{PARTIES}active-features.npz": "features",
    f"{PARTIES}passive-features.npz": "features",
    f"{ATTACKS}estimates-0.npz": "half_star",
    f"{ATTACKS}training-passive-label_recovery.npz": "labels",
    f"{PARTIES}passive-weights.npz": "weights",
}


@dataclass(frozen=True)
class Tampering:
    """One change of one file.

    Attributes:
        name: of the change.
        file: that it is made to, under the run's folder.
        change: makes it, given the file's path.
        is_valid: whether what stands there then may be what a run wrote, so that a reader may take it.
    """

    name: str
    file: str
    change: Change
    is_valid: bool = False

    def make(self, run: Path, into: Path) -> Path:
        """Copy a run and tamper with the copy; returns it."""
        shutil.copytree(run, into)
        self.change(into / self.file)
        return into


# -- any file ----------------------------------------------------------------------------------------------------------


def _written(content: bytes | str, path: Path) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _replaced(make: Change, path: Path) -> None:
    path.unlink(missing_ok=True)
    make(path)


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


_ANY: Mapping[str, Change] = {
    "empty": partial(_written, b""),
    "truncated": _truncated,
    "noise": partial(_written, bytes(range(256)) * 40),
    "a folder": partial(_replaced, Path.mkdir),
    "a pipe": partial(_replaced, os.mkfifo),
    "a link to itself": partial(_replaced, lambda path: path.symlink_to(path.name)),
    "a link to nothing": partial(_replaced, lambda path: path.symlink_to("nowhere")),
    "a link to an endless file": partial(_replaced, lambda path: path.symlink_to("/dev/zero")),
}


# -- JSON --------------------------------------------------------------------------------------------------------------


def _misencoded(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"', b'"\xff', 1))


_ANY_JSON: Mapping[str, Change] = {
    "not UTF-8": _misencoded,
    "null": partial(_written, "null"),
    "a number": partial(_written, "5"),
    "a text": partial(_written, '"schema"'),
    "a list of lists": partial(_written, "[[[1]]]"),
    "a list of numbers": partial(_written, "[1, 2]"),
    "an object of nothing": partial(_written, "{}"),
    "a list of null": partial(_written, "[null]"),
    "very deep": partial(_written, DEEP),
    "very deep objects": partial(_written, '{"schema": ' * 100_000 + "1" + "}" * 100_000),
    "a huge number": partial(_written, HUGE),
    "many empty lists": partial(_written, "[" + "[]," * _LISTS * 2 + "[]]"),
    "a sparse file beyond memory": partial(os.truncate, length=1 << 40),
}


def _set(value: Any, *keys: str | int) -> Change:
    """Put a value, or what a function makes of the one that is there, to its place in a JSON file."""

    def change(path: Path) -> None:
        content = json.loads(path.read_text())
        inner = content
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value(inner[keys[-1]]) if callable(value) else value
        path.write_text(
            json.dumps(content).replace('"HUGE"', HUGE).replace('"LARGE"', "9" * 400).replace('"DEEP"', DEEP)
        )

    return change


def _every(key: str, value: Any) -> Change:
    """Put a value under this key of every object of a list."""

    def change(path: Path) -> None:
        path.write_text(json.dumps([one | {key: value} for one in json.loads(path.read_text())]))

    return change


def _many_names(path: Path) -> None:
    """As many names as a file may have values."""
    _written('{"schema": 1, "bytes_by_message": {' + ",".join(f'"{one}":"x"' for one in range(_ENTRIES)) + "}}", path)


_PLAN, _FIRST, _SECOND = ("agreement", "plan"), ("agreement", "parties", 0), ("agreement", "parties", 1)
_IN_RECORDS: Mapping[str, Change] = {
    "no schema of this version": _set("x" * 100_000, "schema"),
    "a huge schema": _set("HUGE", "schema"),
    "no agreement": _set(None, "agreement"),
    "an agreement that is a list": _set([], "agreement"),
    "text for a number": _set("3", *_PLAN, "epochs"),
    "a number with a fraction for a count": _set(3.5, *_PLAN, "epochs"),
    "true for a count": _set(True, *_PLAN, "epochs"),
    "a batch of no records": _set(0, *_PLAN, "batch_size"),
    "a negative batch": _set(-1, *_PLAN, "batch_size"),
    "a huge batch": _set("LARGE", *_PLAN, "batch_size"),
    "a fraction that is no number": _set(float("nan"), *_PLAN, "test_fraction"),
    "an endless learning rate": _set(float("inf"), *_PLAN, "learning_rate"),
    "an unknown cipher": _set("rot13", *_PLAN, "cipher"),
    "a term too few": _set(lambda plan: {k: v for k, v in plan.items() if k != "seed"} | {"seed": None}, *_PLAN),
    "no parties": _set([], "agreement", "parties"),
    "one party": _set(lambda parties: parties[:1], "agreement", "parties"),
    "parties of one name": _set("active", *_SECOND, "name"),
    "a name that leads elsewhere": _set("../../passive", *_SECOND, "name"),
    "a name of nobody": _set("", *_SECOND, "name"),
    "no features": _set(0, *_SECOND, "feature_count"),
    "fewer features than there are": _set(1, *_SECOND, "feature_count"),
    "a huge number of features": _set("HUGE", *_SECOND, "feature_count"),
    "more narrow features than there are": _set(50, *_FIRST, "binary_features"),
    "no classes": _set(0, "agreement", "classes"),
    "classes beyond number": _set(10**12, "agreement", "classes"),
    "no records": _set(0, *_FIRST, "aligned_rows"),
    "more records than there are": _set(10**15, *_FIRST, "aligned_rows"),
    "negative records": _set(-5, *_FIRST, "aligned_rows"),
    "a session that is none": _set("../x", "agreement", "session_id"),
    "options that are no JSON": _set([{"name": "score_noise", "options": "[" * 100_000}], "agreement", "announced"),
    "steps that are no objects": _set([1, 2], "steps"),
    "a step in words": _set("long", "steps", 0, "wait"),
    "a step of no time": _set(float("nan"), "steps", 0, "wait"),
    "an endless step": _set(float("inf"), "steps", 0, "wait"),
    "a step of huge time": _set("LARGE", "steps", 0, "wait"),
    "a deep step": _set("DEEP", "steps", 0, "wait"),
    "bytes in words": _set({"Join": "many"}, "bytes_by_message"),
    "negative bytes": _set({"Join": -7}, "bytes_by_message"),
    "huge bytes": _set({"Join": "LARGE"}, "bytes_by_message"),
    "huge memory": _set("LARGE", "peak_memory_bytes"),
    "a million steps that are lists": partial(_written, '{"schema": 1, "steps": [' + "[]," * _LISTS + "[]]}"),
    "a million names": _many_names,
    "predictions that are none": _set([[]], "predictions"),
    "channels that are none": _set([{"key_holder": 3}], "channels"),
}
_IN_ACTIVE: Mapping[str, Change] = {
    "fewer names of classes": _set(["one"], "class_names"),
    "names of classes that are numbers": _set([1, 2, 3], "class_names"),
    "epochs that are numbers": _set([1, 2, 3], "epochs"),
    "an endless loss": _set(float("inf"), "epochs", 0, "validation_loss"),
    "a loss in words": _set("small", "epochs", 0, "validation_loss"),
    "a kept epoch that there isn't": _set(99, "kept_epoch"),
    "a negative kept epoch": _set(-1, "kept_epoch"),
    "a huge kept epoch": _set("LARGE", "kept_epoch"),
}
_IN_OUTCOMES: Mapping[str, Change] = {
    "an unknown status": _every("status", "wonderful"),
    "no status": _every("status", None),
    "an unknown level": _every("level", "everything"),
    "an unknown attack": _every("attack", "made_up"),
    "an attack that leads elsewhere": _every("attack", "../../active-features"),
    "an attack that is a number": _every("attack", 3),
    "an endless time": _every("seconds", float("inf")),
    "negative records": _every("records", -1),
    "no records": _every("records", None),
    "a batch in words": _every("batch", "first"),
}
_IN_TRAINING: Mapping[str, Change] = {
    "an unknown kind": _every("kind", "hopes"),
    "another kind": _every("kind", "readings"),
    "a kind that is a number": _every("kind", 3),
    "a party that there isn't": _every("party", "nobody"),
    "a party that leads elsewhere": _every("party", "../../x"),
    "an attack that leads elsewhere": _every("attack", "../../../x"),
    "a status that is a list": _every("status", []),
    "huge facts": _set("LARGE", 0, "rank"),
    "deep facts": _set("DEEP", 0, "rank"),
}
_IN_CONFIG: Mapping[str, Change] = {
    "a plan that is a list": _set([1], "plan"),
    "a reason that is a list": _set([1], "plan", "why"),
    "a request that is a list": _set([1], "request"),
    "versions that are a number": _set(3, "versions"),
    "a time in words": _set("long", "seconds"),
    "no time": _set(None, "seconds"),
    "an endless time": _set(float("inf"), "seconds"),
    "a huge time": _set("LARGE", "seconds"),
    "a deep request": _set("DEEP", "request", "data"),
}
_IN_RESULTS: Mapping[str, Change] = {
    "an answer that is a list": _set([1], "answer"),
    "a sentence that is an object": _set({}, "answer", "sentence"),
    "columns that are numbers": _set([1, 2], "answer", "columns"),
    "columns that are a number": _set(1, "answer", "columns"),
    "a column without levels": _set({"party": "passive", "column": "x"}, "answer", "columns", 0),
    "levels that are numbers": _set([1], "answer", "columns", 0, "levels"),
    "a part that is a number": _set(
        lambda levels: [one | {"part": 0.5} for one in levels], "answer", "columns", 0, "levels"
    ),
    "a part in words": _set(
        lambda levels: [one | {"part": {"mean": "much"}} for one in levels], "answer", "columns", 0, "levels"
    ),
    "an accuracy in words": _set("good", "accuracy"),
    "a huge accuracy": _set("LARGE", "accuracy"),
    "an accuracy that is a list": _set([1], "accuracy"),
}
_TRIAL = {"defence": "class_label"}
_IN_CANDIDATES: Mapping[str, Change] = {
    "a trial of another version": partial(_written, '[{"defense": "class_label"}]'),
    "a trial that is a number": partial(_written, "[1]"),
    "a part in words": partial(_written, json.dumps([_TRIAL | {"part": "much", "holds": True}])),
    "a defence that is a list": partial(_written, json.dumps([_TRIAL | {"defence": [1], "holds": True}])),
    "options that are a number": partial(_written, json.dumps([_TRIAL | {"options": 3}])),
    "huge seconds": partial(_written, f'[{{"defence": "x", "holds": true, "accuracy": 0.5, "seconds": {"9" * 400}}}]'),
    "an endless change": partial(
        _written, '[{"defence": "x", "holds": true, "accuracy": 0.5, "accuracy_change": -1e999}]'
    ),
}
_IN_STATUS: Mapping[str, Change] = {
    "an unknown status": _set("wonderful", "status"),
    "a status that is a list": _set([], "status"),
    "a reason that is a list": _set([1], "reason"),
    "a time that is an object": _set({}, "started"),
}
_IN_TOML: Mapping[str, Change] = {
    "no TOML": partial(_written, "= = ="),
    "very deep": partial(_written, "data = " + DEEP),
    "a huge number": partial(_written, f"parties = {HUGE}"),
    "parties beyond number": partial(_written, 'data = "wine"\nparties = 9223372036854775807\n'),
    "a number for a text": partial(_written, "data = 5\n"),
    "attacks that are numbers": partial(_written, 'data = "wine"\nattacks = [1]\n'),
    "an unknown attack": partial(_written, 'data = "wine"\nattacks = ["made_up"]\n'),
    "a defence that there isn't": partial(_written, 'data = "wine"\ndefences = ["made_up"]\n'),
    "settings that are a number": partial(_written, 'data = "wine"\nsettings = 3\n'),
    "tables that are a number": partial(_written, 'active = 3\npassive = 5\nlabel = "x"\n'),
    "defences that are a number": partial(_written, 'data = "wine"\ndefences = 3\n'),
    "a date": partial(_written, "data = 2020-01-01\nactive = 1979-05-27\n"),
    "dotted": partial(_written, "a." * 50_000 + "b = 1"),
}

# -- arrays ------------------------------------------------------------------------------------------------------------


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path) as content:
        return dict(content)


def _changed(change: Callable[[np.ndarray], Any], name: str) -> Change:
    def rewrite(path: Path) -> None:
        arrays = _arrays(path)
        np.savez(path, **(arrays | {name: change(arrays[name])}))

    return rewrite


def _without(name: str) -> Change:
    def rewrite(path: Path) -> None:
        np.savez(path, **{key: array for key, array in _arrays(path).items() if key != name})

    return rewrite


def _npy(descr: str, shape: str, content: bytes = b"") -> bytes:
    """An .npy file whose header says what it likes."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + content


def _member(name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> Change:
    """Replace one member of an .npz file by these bytes."""

    def rewrite(path: Path) -> None:
        whole = BytesIO(path.read_bytes())
        with zipfile.ZipFile(whole) as before, zipfile.ZipFile(path, "w") as after:
            for one in before.namelist():
                if one != f"{name}.npy":
                    after.writestr(one, before.read(one))
            after.writestr(f"{name}.npy" if "." not in name else name, content, compression)

    return rewrite


def _bomb(path: Path) -> None:
    """A megabyte that unpacks to 1.5 GB of zeros, as its header claims."""
    arrays = _arrays(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if name != "rcc2":
                    np.lib.format.write_array(member, array)
                    continue
                member.write(_npy("'<f8'", f"({3 * 2**26},)"))
                for _ in range(96):
                    member.write(bytes(1 << 24))


def _flagged_encrypted(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 4)
    path.write_bytes(content)


def _of_arrays(name: str) -> Iterator[tuple[str, Change]]:
    """What can be wrong with an array, and with the archive around it."""
    yield "an object array", _changed(lambda array: np.array([{}] * len(array), dtype=object), name)
    yield "words", _changed(lambda array: array.astype("U"), name)
    yield "bytes", _changed(lambda array: array.astype("S"), name)
    yield "complex numbers", _changed(lambda array: array.astype(np.complex128) + 1j, name)
    yield "dates", _changed(lambda array: array.astype(np.int64).astype("M8[D]"), name)
    yield "a structure", _changed(lambda array: np.zeros(array.shape, dtype=[("a", "f8"), ("b", "f8")]), name)
    yield "one number", _changed(lambda array: np.float64(array.flat[0]), name)
    yield "a record too few", _changed(lambda array: array[:-1], name)
    yield "turned", _changed(lambda array: array[None] if array.ndim == 1 else array.T, name)
    yield "one axis more", _changed(lambda array: array[..., None], name)
    yield "flat", _changed(lambda array: np.repeat(array, 2).ravel(), name)
    yield "no record", _changed(lambda array: array[:0], name)
    yield "endless", _changed(lambda array: array * np.inf if array.dtype.kind == "f" else array + 10**15, name)
    yield "missing", _without(name)
    yield "of a claimed size beyond memory", _member(name, _npy("'<f8'", f"({10**6}, {10**6})"))
    yield "of a claimed size beyond number", _member(name, _npy("'<f8'", f"({10**30},)"))
    yield "of a negative size", _member(name, _npy("'<f8'", "(-5, 3)"))
    yield "of a size in words", _member(name, _npy("'<f8'", "('a', 3)"))
    yield "of no size and endless width", _member(name, _npy("'<f8'", f"(0, {10**17})"))
    yield "of an unknown type", _member(name, _npy("'x9'", "(3,)"))
    yield "of a type that is a program", _member(name, _npy("'__import__(\"os\").abort()'", "(3,)"))
    yield "of pickled objects", _member(name, _npy("'|O'", "(3,)", b"cos\nabort\n(tR."))
    yield "of an endless header", _member(name, b"\x93NUMPY\x02\x00" + struct.pack("<I", 10**6) + b"[" * 10**6)
    yield "no array at all", _member("notes.txt", b"hello")
    yield "a member that is no array", _member(name, b"hello")
    yield "encrypted", _flagged_encrypted
    yield "an array beside no archive", lambda path: _written(_npy("'<f8'", "(2,)", bytes(16)), path)
    yield "a pickle", partial(_written, b"cos\nabort\n(tR.")


_FEATURES, _ESTIMATES = f"{PARTIES}passive-features.npz", f"{ATTACKS}estimates-0.npz"
_LABELS, _ACTIVE = f"{ATTACKS}training-passive-label_recovery.npz", f"{PARTIES}active-features.npz"
_SCORES = f"{PARTIES}active-test-scores.npz"
_IN_ARRAYS: Mapping[tuple[str, str], Change] = {
    (_SCORES, "fewer labels than scores"): _changed(lambda array: array[:5], "labels"),
    (_SCORES, "a class that there isn't"): _changed(lambda array: array + 7, "labels"),
    (_SCORES, "a negative class"): _changed(lambda array: -1 - array, "labels"),
    (_SCORES, "a class beyond memory"): _changed(lambda array: array + 10**15, "labels"),
    (_SCORES, "scores of fewer classes"): _changed(lambda array: array[:, :1], "scores"),
    (_SCORES, "scores of no classes"): _changed(lambda array: array[:, :0], "scores"),
    (_SCORES, "scores that are no numbers"): _changed(lambda array: array * np.nan, "scores"),
    (_SCORES, "a negative test record"): _changed(lambda array: -1 - array, "rows"),
    (_SCORES, "a test record that there isn't"): _changed(lambda array: array + 10**7, "rows"),
    (_FEATURES, "no numbers"): _changed(lambda array: array * np.nan, "features"),
    (_FEATURES, "huge numbers"): _changed(lambda array: array * 1e308, "features"),
    (_FEATURES, "a name too few"): _changed(lambda array: array[:-1], "names"),
    (_FEATURES, "names that are numbers"): _changed(lambda array: np.arange(len(array)), "names"),
    (_FEATURES, "kinds that are numbers"): _changed(lambda array: np.arange(len(array)), "kinds"),
    (_FEATURES, "unknown kinds"): _changed(lambda array: np.array(["hopes"] * len(array)), "kinds"),
    (_FEATURES, "a kind too few"): _changed(lambda array: array[:-1], "kinds"),
    (_FEATURES, "unknown widths"): _changed(lambda array: np.array(["wide"] * len(array)), "widths"),
    (_FEATURES, "a source too few"): _changed(lambda array: array[1:], "sources"),
    (_FEATURES, "one source of all"): _changed(lambda array: np.full(len(array), "x"), "sources"),
    (_FEATURES, "offsets in words"): _changed(lambda array: array.astype("U"), "offsets"),
    (_FEATURES, "an offset too few"): _changed(lambda array: array[:-1], "offsets"),
    (_FEATURES, "endless scales"): _changed(lambda array: array * np.inf, "scales"),
    (_FEATURES, "a scale too few"): _changed(lambda array: array[:-1], "scales"),
    (_ACTIVE, "no labels"): _without("labels"),
    (_ACTIVE, "a label too few"): _changed(lambda array: array[:-1], "labels"),
    (_ACTIVE, "labels that are fractions"): _changed(lambda array: array + 0.5, "labels"),
    (_ACTIVE, "negative labels"): _changed(lambda array: -1 - array, "labels"),
    (_ACTIVE, "labels beyond memory"): _changed(lambda array: array + 10**15, "labels"),
    (_ESTIMATES, "a bomb"): _bomb,
    (_ESTIMATES, "negative rows"): _changed(lambda array: -1 - array, "rows"),
    (_ESTIMATES, "rows that there aren't"): _changed(lambda array: array + 10**9, "rows"),
    (_ESTIMATES, "rows that are fractions"): _changed(lambda array: array + 0.5, "rows"),
    (_ESTIMATES, "rows twice over"): _changed(lambda array: np.stack([array, array]), "rows"),
    (_ESTIMATES, "known rows that there aren't"): _changed(lambda array: array + 10**9, "known: rows"),
    (_ESTIMATES, "negative known rows"): _changed(lambda array: -1 - array, "known: rows"),
    (_ESTIMATES, "known rows in words"): _changed(lambda array: array.astype("U"), "known: rows"),
    (_ESTIMATES, "an attack too few"): _without("rcc2"),
    (_ESTIMATES, "huge estimates"): _changed(lambda array: array * 0 + 1e308, "rcc2"),
    (_LABELS, "rows that there aren't"): _changed(lambda array: array + 10**9, "step_rows"),
    (_LABELS, "negative rows"): _changed(lambda array: -1 - array, "step_rows"),
    (_LABELS, "a step too few"): _changed(lambda array: array[:-1], "step_labels"),
    (_LABELS, "epochs in words"): _changed(lambda array: array.astype("U"), "step_epoch"),
    (_LABELS, "epochs beyond number"): _changed(lambda array: array + 2**62, "step_epoch"),
}
# What a run may have written, for all that a reader can know: it is taken.
_VALID = frozenset(
    {
        (_FEATURES, "one source of all"),
        (_ESTIMATES, "huge estimates"),
        (OUTCOMES[1], "an unknown kind"),
        (OUTCOMES[1], "huge facts"),
        (RECORDS[0], "an endless loss"),
        (OWN[3], "an endless change"),
    }
)


def _pairs() -> Iterator[tuple[str, str, Change]]:
    for file in (*RECORDS, *OUTCOMES, *OWN):
        for name, change in {**_ANY, **_ANY_JSON}.items():
            yield file, name, change
    for name, change in {**_ANY, **_IN_TOML}.items():
        yield "audit.toml", name, change
    special = {
        RECORDS[0]: {**_IN_RECORDS, **_IN_ACTIVE},
        RECORDS[1]: _IN_RECORDS,
        OUTCOMES[0]: _IN_OUTCOMES,
        OUTCOMES[1]: _IN_TRAINING,
        **dict(zip(OWN, (_IN_CONFIG, _IN_RESULTS, _IN_STATUS, _IN_CANDIDATES), strict=True)),
    }
    for file, changes in special.items():
        for name, change in changes.items():
            yield file, name, change
    for file, array in ARRAYS.items():
        for name, change in {**_ANY, **dict(_of_arrays(array))}.items():
            yield file, name, change
    for (file, name), change in _IN_ARRAYS.items():
        yield file, name, change


# What leaves nothing of a file that a reader could take.
RUINED = {*_ANY, *_ANY_JSON} - {"an object of nothing"}
TAMPERINGS = tuple(Tampering(name, file, change, (file, name) in _VALID) for file, name, change in _pairs())
