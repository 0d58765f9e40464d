"""Routes through streams whose pictures refer to the one or two references before them: MPEG-1, MPEG-2, MPEG-4 part 2.

    a B-picture      nothing refers to it: needed if wanted
    a P-picture      refers to the reference before it: needed if wanted, or if a later one needs it
    an I-picture     refers to nothing: what comes before it in its group is needed for itself alone

A B-picture that stands behind an I-picture refers to the reference before that one as well. B-pictures are shown at
once, a reference when the next one comes; so the frames are numbered without their times, which AVI does not keep.
Nothing here knows bits; a codec's reader says which pictures a decoder decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed.decode.route import MAX_HELD_BYTES, NUM_LOOKED_AT, Foreseen, Route, RouteMaker, UnusualStreamError, Wanted
from clipfeed.decode.work import Packets

__all__ = [
    "B_PICTURE",
    "I_PICTURE",
    "P_PICTURE",
    "DisplayOrder",
    "Picture",
    "PictureReader",
    "needed",
    "reference_route_maker",
]

# FFmpeg's types of pictures (AVPictureType).
I_PICTURE: Final = 1
P_PICTURE: Final = 2
B_PICTURE: Final = 3

_Held: TypeAlias = "dict[int, Packet[VideoStream]]"


@dataclass(slots=True)
class Picture:
    """One picture that a decoder decodes.

    Attributes:
        kind: `I_PICTURE`, `P_PICTURE` or `B_PICTURE`.
        packet: Number of the packet that holds it.
        number: Of the frame that it shows; None until that is known.
    """

    kind: int
    packet: int
    number: int | None = None


PictureT = TypeVar("PictureT", bound=Picture)


class PictureReader(Protocol[PictureT]):
    """Reads the packets of one stream in order."""

    @property
    def num_always_sent(self) -> int:
        """How many of the first pictures a decoder must be sent in any case, at least 1."""

    @property
    def keeps_references(self) -> bool:
        """Whether it must be sent all references."""

    def read(self, packet: bytes) -> Sequence[PictureT]:
        """Give the pictures that a decoder decodes when it gets the next packet, in order.

        Raises:
            UnusualStreamError: If that is in doubt, or if a decoder might not show a frame for each.
        """

    def part_of(self, picture: PictureT, packet: Packet[VideoStream]) -> Packet[Any]:
        """Give what a decoder must be sent of a picture's packet, if it is sent no other part of it."""


class DisplayOrder(Generic[PictureT]):
    """Numbers the frames that pictures show, given in decoding order.

    Attributes:
        pictures: Pictures so far.
        num_shown: Frames shown so far.
        num_references: I- and P-pictures so far.
        has_b: Whether B-pictures were among them.
    """

    def __init__(self) -> None:
        self.pictures: list[PictureT] = []
        self.num_shown = 0
        self.num_references = 0
        self.has_b = False
        self._waiting: PictureT | None = None  # the reference that is shown when the next one comes
        self._newest_intra = self._finished = 0

    def add(self, picture: PictureT) -> None:
        """Take the next picture.

        Raises:
            UnusualStreamError: For a start without an I-picture, and for a B-picture that lacks a reference.
        """
        kind = picture.kind
        if kind == B_PICTURE:
            self.has_b = True
            if self.num_references < 2:
                raise UnusualStreamError("a B-picture before two references")
            self._show(picture)
        else:
            if kind != I_PICTURE and not self.num_references:
                raise UnusualStreamError("a start that is no I-picture")
            self.num_references += 1
            self._finished = self._newest_intra
            if kind == I_PICTURE:
                self._newest_intra = len(self.pictures)
            self.finish()
            self._waiting = picture
        self.pictures.append(picture)

    def finish(self) -> None:
        """Say that there are no more pictures: the last reference is shown."""
        if self._waiting is not None:
            self._show(self._waiting)
            self._waiting = None

    def take_finished_groups(self, wanted: Collection[int]) -> tuple[list[PictureT], int]:
        """Give up the pictures before the last I-picture behind which another reference has come.

        Returns:
            The pictures, and how many references those behind need of them.
        """
        group, self.pictures = self.pictures[: self._finished], self.pictures[self._finished :]
        num_before = 0
        for picture in self.pictures[1:]:
            if picture.kind != B_PICTURE:
                break
            num_before |= picture.number in wanted
        self._newest_intra -= self._finished
        self._finished = 0
        return group, num_before

    def _show(self, picture: PictureT) -> None:
        picture.number = self.num_shown
        self.num_shown += 1


def reference_route_maker(make_reader: Callable[[bytes], PictureReader[PictureT]]) -> RouteMaker:
    """Make a codec's `RouteMaker` out of what makes its readers from extra data."""

    def make_route(packets: Packets, wanted: Wanted, extradata: bytes) -> Route:
        reader = make_reader(extradata)
        choice, last = _Choice(reader, wanted.numbers), wanted.last
        order = choice.order
        num_bytes = 0
        for number, packet in enumerate(packets):
            if num_bytes > MAX_HELD_BYTES:
                num_bytes = choice.forget()
            choice.held[number] = packet
            num_bytes += packet.size
            for picture in reader.read(bytes(packet)):
                order.add(picture)
            if order.num_shown > last:
                break
            if number == NUM_LOOKED_AT:
                wanted.check_worth(has_free=order.has_b)
        else:
            order.finish()
        if order.num_shown <= last:
            raise UnusualStreamError("fewer frames than are wanted")
        choice.decide(order.pictures)
        yield from _steps(choice, reader)

    return make_route


def needed(
    pictures: Sequence[PictureT], wanted: Collection[int], *, num_always: int, num_before: int = 0
) -> list[PictureT]:
    """Give the pictures that a decoder must be sent to show the wanted frames, in order.

    Args:
        pictures: Pictures in decoding order.
        wanted: Numbers of frames.
        num_always: How many of the first pictures are needed in any case.
        num_before: How many references the pictures behind these need, 0 to 2.
    """
    kept = []
    for place in range(len(pictures) - 1, -1, -1):
        picture = pictures[place]
        is_wanted = place < num_always or picture.number in wanted
        if picture.kind == B_PICTURE:
            if is_wanted:
                num_before = 2
                kept.append(picture)
        elif is_wanted or num_before:
            num_before = max(num_before - 1, int(picture.kind == P_PICTURE))
            kept.append(picture)
    return kept[::-1]


class _Choice(Generic[PictureT]):
    """Chooses what to send, and holds the packets of it.

    Attributes:
        order: All pictures of which it is not yet decided.
        sent: Those that are sent, in order.
        held: Packets that may be needed, by number.
    """

    def __init__(self, reader: PictureReader[PictureT], wanted: Collection[int]) -> None:
        self.order: DisplayOrder[PictureT] = DisplayOrder()
        self.sent: list[PictureT] = []
        self.held: _Held = {}
        self._reader = reader
        self._wanted = wanted
        self._num_decided = 0

    def decide(self, pictures: Sequence[PictureT], num_before: int = 0) -> None:
        """Choose among the next pictures."""
        num_always = self._reader.num_always_sent - self._num_decided
        if self._reader.keeps_references:
            # The last one of all only brought the one before it to be shown.
            num_references = len(pictures) - (pictures[-1].number is None) if pictures else 0
            self.sent += [
                picture
                for place, picture in enumerate(pictures)
                if place < num_always
                or picture.number in self._wanted
                or (picture.kind != B_PICTURE and place < num_references)
            ]
        else:
            self.sent += needed(pictures, self._wanted, num_always=num_always, num_before=num_before)
        self._num_decided += len(pictures)

    def forget(self) -> int:
        """Decide as far as that can be, and drop packets that nobody needs any more; give the bytes that are left.

        The newest packet may hold a picture that is not decoded yet.
        """
        self.decide(*self.order.take_finished_groups(self._wanted))
        needed_packets = {picture.packet for picture in (*self.sent, *self.order.pictures)} | {max(self.held)}
        for number in self.held.keys() - needed_packets:
            del self.held[number]
        num_bytes = sum(packet.size for packet in self.held.values())
        if num_bytes > MAX_HELD_BYTES // 2:
            raise UnusualStreamError("more packets than may be held in memory")
        return num_bytes


def _steps(choice: _Choice[PictureT], reader: PictureReader[PictureT]) -> Route:
    """Give what the decoder is sent, and when it must show what.

    With B-pictures, a reference is shown when the next one comes. Without, decoders differ: it may be shown at once.
    """
    waiting: tuple[Foreseen, ...] = ()
    for picture in choice.sent:
        own: tuple[Foreseen, ...] = () if picture.number is None else (Foreseen(picture.number, picture.kind),)
        if choice.order.has_b and picture.kind != B_PICTURE:
            own, waiting = waiting, own
        yield reader.part_of(picture, choice.held[picture.packet]), own
    yield None, waiting
