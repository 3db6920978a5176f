"""Re-iterable collections of documents, from wherever text or token ids come.

Every function here returns a :class:`Corpus`; every function of the library that reads one also
takes a plain list of strings or of id sequences. Nothing is held in memory but the document at hand.

============================  =====================================================================
:func:`sample_wikipedia`      106 articles that ship with gensim, offline
:func:`wikipedia_dump`        a MediaWiki XML dump, streamed
:func:`huggingface`           a data set of Hugging Face, streamed
:func:`jsonl`                 one JSON object a line
:func:`text_files`            one plain file a document
:func:`token_id_file`         one document a line, in word numbers
:func:`lda`                   synthetic documents, whose topics are known
:func:`word_counts`           how often each word of a corpus occurs
============================  =====================================================================
"""

from __future__ import annotations

from ._counts import word_counts
from ._document import Corpus, CorpusLike, Document, as_corpus
from ._huggingface import huggingface
from ._id_file import token_id_file
from ._lda import LdaBatch, LdaCorpus, lda
from ._text import jsonl, text_files
from ._wikipedia import sample_wikipedia, wikipedia_dump

__all__ = [
    "Corpus",
    "CorpusLike",
    "Document",
    "LdaBatch",
    "LdaCorpus",
    "as_corpus",
    "huggingface",
    "jsonl",
    "lda",
    "sample_wikipedia",
    "text_files",
    "token_id_file",
    "wikipedia_dump",
    "word_counts",
]
