"""Bodies as they were before a server packed them: unpacked in small pieces, so that a limit can stop it early."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

PIECE_BYTES = 64 * 1024
MAX_LAYERS = 3
MAX_MEMBERS = 1000
UNPACKED = "gzip, deflate"
_ZLIB = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP = zlib.MAX_WBITS | 16
_GZIP_MAGIC = b"\x1f\x8b"


class UnpackingError(Exception):
    """The body is not packed as it says."""


class Unpacking:
    """Undoes the content codings of an answer; the first one that is not known, and all within it, stay."""

    def __init__(self, codings: Sequence[str]) -> None:
        names = [name for coding in codings for name in (part.strip().lower() for part in coding.split(",")) if name]
        known: list[_Layer] = []
        while names and (names[-1] == "identity" or names[-1] in _ZLIB):
            name = names.pop()
            if name != "identity":
                known.append(_Layer(is_gzip=name != "deflate"))
        if len(known) > MAX_LAYERS:
            raise UnpackingError(f"packed {len(known)} times over")
        self._layers = known
        self.still: str | None = ", ".join(names)[:100] or None
        """What the body is still packed as."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Give what these bytes unpack to; raises UnpackingError."""
        return _through(self._layers, data)

    def finish(self) -> None:
        """Raise UnpackingError if the end is missing."""
        if any(layer.is_cut for layer in self._layers):
            raise UnpackingError("the end is missing")


class _Layer:
    """One coding of zlib, undone; several members of gzip in a row are one body, what else follows is ignored."""

    def __init__(self, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._zlib = zlib.decompressobj(_GZIP) if is_gzip else None
        self._head = b""
        self._members = 1

    @property
    def is_cut(self) -> bool:
        """Say whether something came, but not all of it."""
        return bool(self._head) and (self._zlib is None or not self._zlib.eof)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Give what is in these bytes, a bounded piece at a time."""
        if len(self._head) < 2:
            self._head += data
        if self._zlib is None:
            if len(self._head) < 2:
                return
            data, self._zlib = self._head, zlib.decompressobj(_window(self._head))
        while not self._zlib.eof or self._has_another(data):
            try:
                piece = self._zlib.decompress(data, PIECE_BYTES)
            except zlib.error as problem:
                raise UnpackingError(str(problem)) from None
            if piece:
                yield piece
            data = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
            if not data and len(piece) < PIECE_BYTES:
                return

    def _has_another(self, data: bytes) -> bool:
        """Begin another member, if these bytes do."""
        if not self._is_gzip or not data or not data.startswith(_GZIP_MAGIC[: len(data)]):
            return False
        self._members += 1
        if self._members > MAX_MEMBERS:
            raise UnpackingError("it has too many members")
        self._zlib = zlib.decompressobj(_GZIP)
        return True


def _through(layers: Sequence[_Layer], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].pieces(data):
        yield from _through(layers[1:], piece)


def _window(head: bytes) -> int:
    """Return how to read `deflate`: with the header that the standard asks for, or without, as some send it."""
    is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
