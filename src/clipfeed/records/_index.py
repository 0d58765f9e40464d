"""The index in memory: flat columns, a lazy view of records over them, and parts of it."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.records._videos import Failure, VideoInfo, VideoRecord, join_key
from clipfeed.seeds import hash_key


class TextColumn(Sequence[str]):
    """Texts in one flat buffer: no Python object per row, so that workers share memory and pickles stay small.

    Args:
        data: UTF-8 bytes of all texts, one behind the other (file names keep undecodable bytes: surrogateescape).
        offsets: (n + 1,) int64; text i is data[offsets[i]:offsets[i + 1]].
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: bytes, offsets: IndexArray) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> TextColumn:
        """Pack texts."""
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(data) for data in encoded], out=offsets[1:])
        return cls(b"".join(encoded), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> TextColumn: ...
    def __getitem__(self, position: int | slice) -> str | TextColumn:
        if isinstance(position, slice):
            return self.take(np.arange(len(self), dtype=np.int64)[position])
        place = int(position) + (len(self) if position < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError(f"text {position} of {len(self)}")
        return self.data[int(self.offsets[place]) : int(self.offsets[place + 1])].decode("utf-8", "surrogateescape")

    def take(self, positions: IndexArray) -> TextColumn:
        """Give the texts at these positions, packed anew."""
        places = np.arange(len(self), dtype=np.int64)[positions]
        starts, ends = self.offsets[places], self.offsets[places + 1]
        pieces = [self.data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return TextColumn(b"".join(pieces), np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)]))

    def find(self, text: str) -> int:
        """Give the position of a text that is not empty, -1 where there is none such."""
        wanted = text.encode("utf-8", "surrogateescape")
        at = self.data.find(wanted) if wanted else -1
        while at >= 0:
            place = int(np.searchsorted(self.offsets, at, side="right")) - 1
            if self.offsets[place] == at and self.offsets[place + 1] == at + len(wanted):
                return place
            at = self.data.find(wanted, at + 1)
        return -1

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack_texts, (zlib.compress(self.data), _pack_array(self.offsets))


class RepeatedTexts(Sequence[str]):
    """Texts of which many are equal: a code a row, and nothing at all for rows that repeat another column.

    Args:
        codes: (n,) int32 positions in `vocabulary`; -1 takes the text of `otherwise`.
        vocabulary: The different texts.
        otherwise: n texts.
    """

    __slots__ = ("codes", "otherwise", "vocabulary")

    def __init__(self, codes: NDArray[np.int32], vocabulary: Sequence[str], otherwise: Sequence[str]) -> None:
        self.codes = codes
        self.vocabulary = vocabulary
        self.otherwise = otherwise

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[str]: ...
    def __getitem__(self, position: int | slice) -> str | Sequence[str]:
        if isinstance(position, slice):
            return [self[place] for place in range(*position.indices(len(self)))]
        code = int(self.codes[position])
        return self.otherwise[position] if code < 0 else self.vocabulary[code]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoColumns:
    """The videos of one store as flat columns, in the order of their row ids.

    Every array has one entry a video, also for files that cannot be used: no row of an index points there. Counts use
    -1 for None. Names that repeat (class, part, codec, container) are codes into `vocabulary`; -1 stands for None.
    """

    keys: TextColumn
    groups: Sequence[str]
    row_ids: IndexArray
    size_bytes: IndexArray
    mtime_ns: IndexArray
    class_codes: NDArray[np.int32]
    part_codes: NDArray[np.int32]
    container_codes: NDArray[np.int32]
    codec_codes: NDArray[np.int32]
    stream_indices: NDArray[np.int32]
    widths: NDArray[np.int32]
    heights: NDArray[np.int32]
    rotations: NDArray[np.int32]
    sample_aspect_ratios: NDArray[np.int64]  # (n, 2) numerator, denominator
    average_fps: NDArray[np.int64]  # (n, 2), 0/0 for None
    time_bases: NDArray[np.int64]  # (n, 2)
    is_variable_rate: NDArray[np.bool_]
    num_frames_from_header: NDArray[np.int32]
    num_frames_from_table: NDArray[np.int32]
    num_frames_from_packets: NDArray[np.int32]
    num_frames_from_decode: NDArray[np.int32]
    key_frames: NDArray[np.int32]  # flat; row i has key_frames[key_frame_offsets[i]:key_frame_offsets[i + 1]]
    key_frame_offsets: IndexArray
    frame_pts: IndexArray | bytes  # flat pts, or what `pack_times` made of each row's; nothing for constant rate
    frame_pts_offsets: IndexArray  # (n + 1,) into frame_pts
    vocabulary: tuple[str, ...]
    fingerprints: NDArray[np.uint8] | None = None  # (n, 16) digests of contents; all zero where there is none

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def num_frames(self) -> NDArray[np.int32]:
        """(n,) exact number of showable frames: from decode, else from packets, else from the table."""
        best = np.where(self.num_frames_from_packets >= 0, self.num_frames_from_packets, self.num_frames_from_table)
        best = np.where(self.num_frames_from_decode >= 0, self.num_frames_from_decode, best)
        return np.maximum(best, 0).astype(np.int32)

    def word(self, code: int) -> str | None:
        """The text of a code, None for -1."""
        return None if code < 0 else self.vocabulary[code]

    def info(self, position: int) -> VideoInfo:
        """Give the facts of the video at a position."""
        keys = slice(*self.key_frame_offsets[position : position + 2])
        pts = slice(*self.frame_pts_offsets[position : position + 2])
        return VideoInfo(
            container=self.word(int(self.container_codes[position])) or "",
            codec=self.word(int(self.codec_codes[position])) or "",
            stream_index=int(self.stream_indices[position]),
            width=int(self.widths[position]),
            height=int(self.heights[position]),
            rotation=int(self.rotations[position]),  # type: ignore[arg-type]  # only quarter turns are stored
            sample_aspect_ratio=_fraction(self.sample_aspect_ratios[position]) or Fraction(1),
            average_fps=_fraction(self.average_fps[position]),
            time_base=_fraction(self.time_bases[position]) or Fraction(1),
            is_variable_rate=bool(self.is_variable_rate[position]),
            num_frames_from_header=_count(self.num_frames_from_header[position]),
            num_frames_from_table=_count(self.num_frames_from_table[position]),
            num_frames_from_packets=_count(self.num_frames_from_packets[position]),
            num_frames_from_decode=_count(self.num_frames_from_decode[position]),
            key_frames=self.key_frames[keys].astype(np.int64),
            frame_pts=_times(self.frame_pts[pts]) if pts.stop > pts.start else None,
        )


def pack_times(pts: IndexArray) -> bytes:
    """Pack the pts of one video. Few different steps come again and again: 300 frames take some 50 bytes, not 2,400."""
    return zlib.compress(np.diff(pts, prepend=np.int64(0)).astype("<i8").tobytes())


def unpack_times(packed: bytes) -> IndexArray:
    """Give the pts that `pack_times` packed.

    Raises:
        ValueError: As for `count_times`.
    """
    return np.cumsum(_steps(packed), dtype=np.int64)


def count_times(packed: bytes) -> int:
    """Give the number of pts that were packed, certain that these are they: the packing carries a checksum.

    Raises:
        ValueError: If these are other bytes than `pack_times` gave.
    """
    return len(_steps(packed))


def _steps(packed: bytes) -> IndexArray:
    try:
        return np.frombuffer(zlib.decompress(packed), "<i8")
    except (zlib.error, ValueError) as error:
        raise ValueError(f"{len(packed)} bytes are no packed times: {error}") from error


def _times(pts: IndexArray | bytes) -> IndexArray:
    return unpack_times(pts) if isinstance(pts, bytes) else pts


def _fraction(pair: NDArray[np.int64]) -> Fraction | None:
    return Fraction(int(pair[0]), int(pair[1])) if pair[1] else None


def _count(value: np.int32) -> int | None:
    return None if value < 0 else int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRef:
    """Where an index is kept, and how to read it again: what a pickled VideoIndex carries in place of its columns.

    Attributes:
        path: The SQLite file.
        root: The data set's folder, as the user gave it.
        snapshot: Number of the store's state; a store that moved on raises StaleIndexError on reading.
        reopen: A module-level function that reads the columns of this very snapshot.
    """

    path: str
    root: str
    snapshot: int
    reopen: Callable[[StoreRef], VideoColumns]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoIndex:
    """A table of usable videos, or a part of one: what splits cut and datasets read.

    Row i of the index is the video at position `rows[i]` of `columns`; a video may have several rows.

    Attributes:
        root: The data set's folder, as the user gave it.
        columns: Facts of every video of the store, shared by all parts.
        rows: (n,) int64 positions in `columns`.
        class_names: Text of each label in label order; None without classes.
        given_labels: (n,) int32, or (n, C) float32 for several labels a row; None: by class name.
        given_groups: One group a row; None: as the store has them.
        starts: (n,) int64 first frame of each row's interval; None: whole videos.
        ends: (n,) int64 end of each row's interval, -1 for the video's end; None: whole videos.
        weights: (n,) float32 weight of each row; None: 1.
        failures: Files that were left out, and why.
        store: Where the columns are kept; None for an index that only lives in memory.
        name: Name of the part, such as "train"; None for the whole.
    """

    root: str
    columns: VideoColumns
    rows: IndexArray
    class_names: tuple[str, ...] | None = None
    given_labels: NDArray[np.int32] | NDArray[np.float32] | None = None
    given_groups: TextColumn | None = None
    starts: IndexArray | None = None
    ends: IndexArray | None = None
    weights: NDArray[np.float32] | None = None
    failures: tuple[Failure, ...] = ()
    store: StoreRef | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for aligned in (self.given_labels, self.given_groups, self.starts, self.ends, self.weights):
            if aligned is not None and len(aligned) != len(self.rows):
                raise ValueError(f"{len(aligned)} values for {len(self.rows)} rows")

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        part = f" {self.name!r}" if self.name else ""
        classes = f", {len(self.class_names)} classes" if self.class_names is not None else ""
        return f"<VideoIndex{part} of {self.root}: {len(self)} videos{classes}>"

    @property
    def records(self) -> Sequence[VideoRecord]:
        """The rows as records, made one by one when asked for."""
        return _Records(self)

    @property
    def keys(self) -> list[str]:
        """Relative POSIX key of each row."""
        return [self.columns.keys[int(position)] for position in self.rows]

    @property
    def paths(self) -> list[str]:
        """Path of each row: the root as given joined with the key."""
        return [join_key(self.root, key) for key in self.keys]

    def path(self, row: int) -> str:
        """Path of one row, without making the others."""
        return join_key(self.root, self.columns.keys[int(self.rows[row])])

    @property
    def groups(self) -> list[str]:
        """Group of each row."""
        if self.given_groups is not None:
            return list(self.given_groups)
        return [self.columns.groups[int(position)] for position in self.rows]

    @property
    def labels(self) -> NDArray[np.int32] | NDArray[np.float32] | None:
        """(n,) int32, or (n, C) float32 for several labels a row; None without labels."""
        if self.given_labels is not None or self.class_names is None:
            return self.given_labels
        numbers = {name: label for label, name in enumerate(self.class_names)}
        label_of_code = np.array([numbers.get(word, -1) for word in self.columns.vocabulary] + [-1], np.int32)
        return label_of_code[self.columns.class_codes[self.rows]]

    @property
    def num_frames(self) -> NDArray[np.int32]:
        """(n,) exact number of showable frames of each row's video."""
        return self.columns.num_frames[self.rows]

    def select(self, positions: IndexArray | Sequence[int], name: str | None = None) -> VideoIndex:
        """Give the rows at these positions as an index of its own.

        Args:
            positions: Row numbers in [0, len(self)), in the wanted order.
            name: Name of the part; None keeps this one's.
        """
        chosen = np.asarray(positions, np.int64)

        def take(values: NDArray[Any] | None) -> Any:  # noqa: ANN401  # whichever array came in
            return None if values is None else values[chosen]

        return replace(
            self,
            rows=self.rows[chosen],
            given_labels=take(self.given_labels),
            given_groups=None if self.given_groups is None else self.given_groups.take(chosen),
            starts=take(self.starts),
            ends=take(self.ends),
            weights=take(self.weights),
            name=self.name if name is None else name,
        )

    def folder_parts(self) -> dict[str, VideoIndex]:
        """Give the parts that folders above the classes spell, by name ("train", "val", "test"); {} without any."""
        code_of = {word: code for code, word in enumerate(self.columns.vocabulary)}
        codes = self.columns.part_codes[self.rows]
        held = {name: np.flatnonzero(codes == code_of[name]) for name in _FOLDER_PARTS if name in code_of}
        return {name: self.select(positions, name) for name, positions in held.items() if len(positions)}

    @property
    def classes_without_videos(self) -> tuple[str, ...]:
        """Classes that keep their label though no usable video of them is here; () for vector labels."""
        labels = self.labels
        if self.class_names is None or labels is None or labels.ndim != 1:
            return ()
        counts = np.bincount(labels[labels >= 0].astype(np.int64), minlength=len(self.class_names))
        return tuple(name for name, count in zip(self.class_names, counts, strict=False) if not count)

    def summary(self) -> str:
        """Say in a few lines what is here and what was left out, and why (first ten)."""
        head = f"{len(self)} videos"
        if self.class_names is not None:
            head += f" belonging to {len(self.class_names)} classes"
        lines = [head]
        if len(self):
            counts = self.num_frames
            lines.append(f"frames per video: {counts.min()} to {counts.max()}, median {int(np.median(counts))}")
        if self.classes_without_videos:
            lines.append(f"classes without a usable video: {', '.join(self.classes_without_videos)}")
        if self.failures:
            lines.append(f"left out: {len(self.failures)} files")
            lines += [f"  {failure.path}: {failure.stage}: {failure.reason}" for failure in self.failures[:10]]
            if len(self.failures) > 10:
                lines.append(f"  ... and {len(self.failures) - 10} more")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as (store, snapshot, rows), a few kB; the columns are read again where the pickle is opened."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        if self.store is not None:
            del facts["columns"]
        for name in _ALIGNED:
            facts[name] = None if facts[name] is None else _pack_array(facts[name])
        told = [(failure.path, failure.stage, failure.reason) for failure in self.failures]
        facts["failures"] = zlib.compress(pickle.dumps(told)) if told else b""
        return _reopen_index, (facts,)


_FOLDER_PARTS = ("train", "val", "test")
_ALIGNED = ("rows", "given_labels", "starts", "ends", "weights")


def _reopen_index(facts: dict[str, Any]) -> VideoIndex:
    store: StoreRef | None = facts["store"]
    if store is not None:
        facts["columns"] = store.reopen(store)
    for name in _ALIGNED:
        facts[name] = None if facts[name] is None else _unpack_array(*facts[name])
    told = pickle.loads(zlib.decompress(facts["failures"])) if facts["failures"] else []  # part of our own pickle
    facts["failures"] = tuple(Failure(path=path, stage=stage, reason=reason) for path, stage, reason in told)
    return VideoIndex(**facts)


def _pack_array(values: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    """Pack an array: steps from one whole number to the next are small and alike, and shrink to next to nothing."""
    whole = values.ndim == 1 and values.dtype.kind == "i"
    steps = np.diff(values, prepend=values.dtype.type(0)) if whole else values
    if whole and np.array_equal(steps.astype(np.int32), steps):
        steps = steps.astype(np.int32)
    planes = np.ascontiguousarray(steps).view(np.uint8).reshape(-1, steps.dtype.itemsize).T  # like bytes side by side
    return f"{values.dtype.str} {steps.dtype.str}", values.shape, zlib.compress(planes.tobytes(), 6)


def _unpack_array(kinds: str, shape: tuple[int, ...], data: bytes) -> NDArray[Any]:
    kind, packed_kind = (np.dtype(name) for name in kinds.split())
    planes = np.frombuffer(zlib.decompress(data), np.uint8).reshape(packed_kind.itemsize, -1)
    steps = np.ascontiguousarray(planes.T).view(packed_kind).reshape(shape)
    return np.cumsum(steps, dtype=kind) if len(shape) == 1 and kind.kind == "i" else steps.astype(kind)


def _unpack_texts(data: bytes, offsets: tuple[str, tuple[int, ...], bytes]) -> TextColumn:
    return TextColumn(zlib.decompress(data), _unpack_array(*offsets))


class _Records(Sequence[VideoRecord]):
    """Records of an index, made when asked for."""

    def __init__(self, index: VideoIndex) -> None:
        self._index = index
        self._labels = index.labels

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[VideoRecord]:
        """One by one; not Sequence's own way, which takes any IndexError for the end."""
        return (self[place] for place in range(len(self)))

    @overload
    def __getitem__(self, number: int) -> VideoRecord: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[VideoRecord]: ...
    def __getitem__(self, number: int | slice) -> VideoRecord | Sequence[VideoRecord]:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        index, columns = self._index, self._index.columns
        place = int(number) + (len(self) if number < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        position = int(index.rows[place])
        key = columns.keys[position]
        end = -1 if index.ends is None else int(index.ends[place])
        return VideoRecord(
            row=int(columns.row_ids[position]),
            root=index.root,
            key=key,
            video_id=hash_key(key),
            class_name=self._class_name(place, position),
            label=self._label(place),
            group=columns.groups[position] if index.given_groups is None else index.given_groups[place],
            weight=1.0 if index.weights is None else float(index.weights[place]),
            start=0 if index.starts is None else int(index.starts[place]),
            end=None if end < 0 else end,
            size_bytes=int(columns.size_bytes[position]),
            mtime_ns=int(columns.mtime_ns[position]),
            info=columns.info(position),
        )

    def _class_name(self, place: int, position: int) -> str | None:
        """Text of the label: the folder's name where it is the label, never where the user gave other labels."""
        names = self._index.class_names
        if names is None:
            return None
        if self._index.given_labels is None:
            return self._index.columns.word(int(self._index.columns.class_codes[position]))
        label = self._label(place)
        return names[label] if isinstance(label, int) and 0 <= label < len(names) else None

    def _label(self, place: int) -> int | tuple[float, ...] | None:
        if self._labels is None:
            return None
        if self._labels.ndim == 1:
            return int(self._labels[place])
        return tuple(float(value) for value in self._labels[place])
