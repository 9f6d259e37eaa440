"""What is wrong with a value is said in words of ours, whatever it is."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from services.common.settings import SettingsError, settings_of
from services.common.value_faults import error_words, fault_words


@dataclass(frozen=True)
class Entry:
    epochs: int


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, "x", "expected a whole number"),
        (int, 1.5, "expected a whole number"),
        (float, "x", "expected a number"),
        (bool, "perhaps", "expected true or false"),
        (str, 3, "expected a text"),
        (list[int], 3, "expected a list"),
        (dict[str, int], 3, "expected an object"),
        (Annotated[int, Field(ge=1)], 0, "expected 1 or more"),
        (Annotated[float, Field(lt=1)], 2.0, "expected less than 1.0"),
        (Literal["a", "b"], "c", "expected 'a' or 'b'"),
        (Entry, {}, "epochs: expected an entry that isn't there"),
        (list[Entry], [{"epochs": "x"}], "0.epochs: expected a whole number"),
    ],
)
def test_what_was_expected_is_said_with_its_place(kind: Any, value: object, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    assert error_words(refused.value) == words


def test_every_fault_that_there_is_has_words() -> None:
    limits = dict.fromkeys(("gt", "ge", "lt", "le", "expected", "min_length", "max_length"), "some")
    for kind in get_args(ErrorType):
        fault: Any = {"type": kind, "msg": "Value error, its own words", "ctx": limits}
        words = fault_words(fault)
        assert words == "its own words" or words.startswith("expected ")
        assert "{" not in words


def test_a_setting_is_refused_without_the_words_of_what_reads_it() -> None:
    with pytest.raises(SettingsError, match=r"^PLUMBLINE_EPOCHS: expected a whole number, got 'x'\.$"):
        settings_of({"epochs": "x"})
    with pytest.raises(SettingsError, match=r"^PLUMBLINE_PACKING: expected true or false, got 'perhaps'\.$"):
        settings_of({"packing": "perhaps"})


def test_other_errors_are_their_first_line() -> None:
    assert error_words(ValueError("one\ntwo")) == "one"
    assert error_words(KeyError()) == "KeyError"
    assert error_words(FileNotFoundError(2, "No such file")) == "No such file"
