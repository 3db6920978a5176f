"""What CORPUS on the command line stands for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..corpora import Corpus, Document, huggingface, jsonl, sample_wikipedia, text_files, wikipedia_dump
from ..corpora._held_out import HELD_OUT_EVERY, is_held_out

SAMPLE = "sample"
_HUB = "hf:"
_PACKED = (".gz", ".bz2")
_FORMS = (
    "a MediaWiki dump (.xml, .xml.bz2, .xml.gz), a .jsonl file, a .txt file, a folder of .txt files, "
    "'sample', or hf:NAME[:CONFIG]"
)


def open_corpus(
    text: str, *, limit: int | None = None, text_field: str = "text", split: str = "train", part: str = "all"
) -> Corpus:
    """Return the corpus that a text names; the kind of a file is told from the end of its name.

    Args:
        text: ``"sample"`` (the articles that ship with gensim); ``"hf:NAME"`` or ``"hf:NAME:CONFIG"`` (a data set of
            Hugging Face, streamed); a MediaWiki dump; a file of JSON lines, plain or compressed; a plain text, which
            is one document; or a folder of such texts.
        limit: read at most so many documents.
        text_field: name of the field with the text, of JSON lines and of a data set.
        split: of a data set.
        part: ``"train"`` leaves out every fourth document, ``"test"`` the others, so that topics can be fitted on
            one and models read the other.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is of another kind, or an option does not go with it.
        CorpusError: if a data set cannot be opened.
    """
    if not text.strip():  # as a path it would be the current folder
        raise ValueError(f"corpus must be {_FORMS}, got {text!r}")
    if part != "all":
        return _part_of(open_corpus(text, text_field=text_field, split=split), part, limit)
    on_hub = text.startswith(_HUB)
    if split != "train" and not on_hub:
        raise ValueError(f"--split is of hf: corpora, and {text} is none: leave it out")
    if on_hub:
        name, _, config = text.removeprefix(_HUB).partition(":")
        if not name:
            raise ValueError(f"corpus must name a data set, as hf:wikimedia/wikipedia:20231101.en, got {text!r}")
        return huggingface(name, config or None, split=split, limit=limit, text_field=text_field)
    path = Path(text).expanduser()
    kind = _kind_of(path)
    if text_field != "text" and (kind != ".jsonl" or text == SAMPLE):
        raise ValueError(f"--text-field is of .jsonl and hf: corpora, and {text} is neither: leave it out")
    if text == SAMPLE:
        return sample_wikipedia(limit=limit)
    if path.is_dir():
        return text_files(path, limit=limit)
    if not path.exists():
        raise FileNotFoundError(f"corpus must be {_FORMS}, got {text!r}: there is no such file")
    if kind == ".jsonl":
        return jsonl(path, text_field=text_field, limit=limit)
    if kind == ".xml":
        return wikipedia_dump(path, limit=limit)
    if kind == ".txt" and path.suffix.lower() == kind:
        return text_files(path, limit=limit)
    raise ValueError(f"corpus must be {_FORMS}, got {text!r}")


def _part_of(corpus: Corpus, part: str, limit: int | None) -> Corpus:
    """Return every fourth document (``"test"``), or the others (``"train"``)."""

    def documents() -> Iterator[Document]:
        for number, document in enumerate(corpus):
            if is_held_out(number) == (part == "test"):
                yield document

    n_test = None if corpus.expected is None else -(-corpus.expected // HELD_OUT_EVERY)
    n = n_test if n_test is None or part == "test" else (corpus.expected or 0) - n_test
    return Corpus(documents, name=f"{corpus.name}, {part}", limit=limit, n_documents=n)


def _kind_of(path: Path) -> str:
    """Return the end of a name, without that of a compression: ``.xml`` of ``wiki.xml.bz2``."""
    name = path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    suffix = Path(name).suffix
    return ".jsonl" if suffix == ".ndjson" else suffix
