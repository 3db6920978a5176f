"""From a record with named fields (a JSON object, a row of a data set) to a document."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import CorpusError
from ._document import Document, as_token_ids

_TOKEN_IDS = "token_ids"
_MAX_LISTED = 20
_MAX_SHOWN = 80


@dataclass(frozen=True)
class Fields:
    """Names of the fields that hold a document's text, title and id.

    The field of the text may hold a list of token ids instead; where it is absent, a field called
    ``token_ids`` is looked for. The fields of title and id may be absent under their usual names:
    the title is then empty and the id is the number of the record, from 0. A name that was chosen must exist.
    """

    text: str
    title: str
    id: str

    def document(self, record: Mapping[str, Any], number: int, *, where: str) -> Document:
        """Return record ``number`` as a document.

        Raises:
            CorpusError: if a field is missing or holds something else; ``where`` begins the message.
        """
        content_field = self.text if self.text in record else _TOKEN_IDS
        if content_field not in record:
            raise CorpusError(_missing(where, "text_field", self.text, record))
        content = record[content_field]
        token_ids = as_token_ids(content)
        text = content if isinstance(content, str) else None
        if text is None and token_ids is None:
            raise CorpusError(
                f"{where}: field {content_field!r} must hold a text or a list of token ids, got {shown(content)}"
            )
        title = self._label(record, "title", self.title, where)
        label = self._label(record, "id", self.id, where)
        try:
            return Document(id=label or str(number), title=title, text=text, token_ids=token_ids)
        except ValueError as error:
            raise CorpusError(f"{where}: {error}") from error

    @staticmethod
    def _label(record: Mapping[str, Any], usual: str, field: str, where: str) -> str:
        if field not in record and field != usual:
            raise CorpusError(_missing(where, f"{usual}_field", field, record))
        value = record.get(field)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise CorpusError(f"{where}: field {field!r} must hold a text or a whole number, got {shown(value)}")
        return str(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _MAX_SHOWN


def shown(value: Any) -> str:
    """Return a value from a file for a message: in one short line, however long or deep it is.

    Examples:
        >>> shown([[[[1, 2]]]] * 1000)
        '[[[[1, 2]]], [[[1, 2]]], [[[1, 2]]], [[[1, 2]]], [[[1, 2]]], [[[1, 2]]], ...]'
    """
    return _SHORT.repr(value)[:_MAX_SHOWN]


def _missing(where: str, argument: str, field: str, record: Mapping[str, Any]) -> str:
    names = [shown(name) for name in itertools.islice(record, _MAX_LISTED)]
    more = ", ..." if len(record) > _MAX_LISTED else ""
    listed = ", ".join(names) + more if names else "none"
    return f"{where} has no field {field!r} (its fields: {listed}): name the right one with {argument}"
