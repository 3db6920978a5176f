"""Files that may be compressed, read in pieces so that damage costs as little as possible.

The kind is told from the first bytes, not from the name. Everything that precedes a cut is handed
out before the error. Where bytes in the middle of a compressed file are wrong, the decompressor
drops what it had ready in that call, so at most one piece before the fault is lost.

Nothing is held but the piece, or line, at hand, and no line without end: a small compressed file may unpack to
more than any memory.
"""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from .._errors import CorpusError

LONGEST_DOCUMENT = 1 << 25
"""Bytes of the longest document that is read, some five million words; what is longer is no single text."""

_BOM = b"\xef\xbb\xbf"
_PIECE = 4096
_PACKED = 1 << 16
_CUT, _CORRUPT = "the compressed stream ends too early", "the compressed stream is corrupt"


class DamagedStream(Exception):
    """A compressed file cannot be unpacked further; the message is the reason."""


def require_file(name: str, path: str | os.PathLike) -> Path:
    """Return ``path`` as an absolute Path, which holds when the working directory changes between passes.

    Raises:
        FileNotFoundError: if nothing is there.
        IsADirectoryError: if it is a folder.
    """
    found = Path(os.path.abspath(os.path.expanduser(path)))
    if found.is_dir():
        raise IsADirectoryError(f"{name} must be a file, got the folder {found}")
    if not found.exists():
        raise FileNotFoundError(f"{name} must be an existing file, got {found}, where there is none")
    return found


def read_pieces(path: Path) -> Generator[bytes, None, None]:
    """Yield the content of a plain, gzip or bzip2 file, unpacked, in pieces of at most 4 KiB.

    Raises:
        DamagedStream: after the good pieces, if the compressed stream is cut or corrupt.
    """
    with path.open("rb") as file:
        magic = file.peek(3)[:3]
        if magic == b"BZh":
            pieces = _unpack_bzip2(file)
        elif magic[:2] == b"\x1f\x8b":
            pieces = _unpack_gzip(file)
        else:
            # read1 and not read, here and below: read throws away what it has gathered when an error follows.
            pieces = iter(lambda: file.read1(_PIECE), b"")
        yield from pieces


def read_lines(path: Path, longest: int, hint: str) -> Generator[tuple[int, bytes], None, None]:
    """Yield the lines of a file, numbered from 1, without a byte order mark at the start.

    Whole lines before a cut come out, the cut one does not.

    Args:
        path: the file, plain or compressed.
        longest: bytes of the longest line that is allowed; hardly more are ever held.
        hint: what the message about a longer line ends with.

    Raises:
        CorpusError: after the good lines, for a line that is too long, and where a compressed file is cut.
    """
    number, begun, size = 1, [], 0
    with closing(read_pieces(path)) as pieces:
        try:
            for piece in pieces:
                begin, *rest = piece.split(b"\n")
                begun.append(begin)
                size += len(begin)
                for following in rest:
                    yield number, _whole(begun, number)
                    number, begun, size = number + 1, [following], len(following)
                if size > longest:
                    raise CorpusError(f"{path}, line {number} must be at most {longest:,} bytes long: {hint}")
        except DamagedStream as error:
            raise CorpusError(f"{path}, line {number}: {error}; the lines before it were read") from error
    yield number, _whole(begun, number)


def _whole(pieces: list[bytes], number: int) -> bytes:
    line = b"".join(pieces)
    return line.removeprefix(_BOM) if number == 1 else line


def _unpack_gzip(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as stream:
        while True:
            try:
                piece = stream.read1(_PIECE)
            except EOFError as error:
                raise DamagedStream(_CUT) from error
            except (zlib.error, gzip.BadGzipFile) as error:
                raise DamagedStream(_CORRUPT) from error
            if not piece:
                return
            yield piece


def _unpack_bzip2(file: BinaryIO) -> Iterator[bytes]:
    # bz2.BZ2File takes whatever follows a whole stream and is not another one for the end, without a word;
    # dumps are many streams in a file, and a damaged one must not end the corpus silently.
    unpacker, packed = bz2.BZ2Decompressor(), b""
    while True:
        if unpacker.eof:
            packed = unpacker.unused_data or file.read(_PACKED)
            if not packed:
                return
            unpacker = bz2.BZ2Decompressor()
        elif unpacker.needs_input:
            packed = file.read(_PACKED)
            if not packed:
                raise DamagedStream(_CUT)
        try:
            piece = unpacker.decompress(packed, _PIECE)
        except OSError as error:
            raise DamagedStream(_CORRUPT) from error
        packed = b""
        if piece:
            yield piece
