"""Routes through streams whose packets say when their pictures are shown: H.264 and HEVC in containers that keep times.

One packet, one picture, one frame; its number is the rank of its time. Packets are read group by group, from one closed
picture to the next, no further than is needed to know the numbers of the wanted frames. In each group backwards:

    a free picture       nothing refers to it: needed if wanted
    any other            needed if wanted, or if a later one of the group is needed

so what is saved is unwanted free pictures and the end of each group behind its last wanted frame. Nothing here knows
bits; a codec's reader says what a packet is, and vouches for those that are left out.

A decoder may be slow to learn how many frames it must hold back to bring them into order, and lose some until it has.
So the first pictures are always sent, and none later may be out of order further than those, or than the stream says.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed.decode.route import MAX_HELD_BYTES, NUM_LOOKED_AT, Foreseen, Route, RouteMaker, UnusualStreamError, Wanted
from clipfeed.decode.work import Packets

__all__ = ["NUM_ALWAYS_SENT", "TimedPicture", "TimedReader", "timed_route_maker"]

NUM_ALWAYS_SENT = 16
"""First pictures that are sent in any case. A stream was seen that begins with frames 0, 2, 3, 1."""

# Frames that a decoder may hold back, and so how far behind a frame's number its packet, and those before it in order,
# may stand (ISO/IEC 14496-10, A.3.1: 16; HEVC as well).
_MAX_DELAY = 16

HeaderT = TypeVar("HeaderT")


class TimedPicture(NamedTuple, Generic[HeaderT]):
    """What a codec says of a packet.

    Attributes:
        order: Where it is shown among the pictures since the last closed one: any numbers that rise.
        is_reference: Whether others may refer to it.
        is_closed: Whether nothing from it on refers to, or is shown before, what came before it.
        header: The reader's own.
    """

    order: int
    is_reference: bool
    is_closed: bool
    header: HeaderT


class TimedReader(Protocol[HeaderT]):
    """Reads the packets of one stream in order.

    Its methods raise `UnusualStreamError` where something is in doubt, and `EOFError` where a header is cut off.
    """

    @property
    def num_reordered(self) -> int | None:
        """Most pictures that stand before one and are shown after it, as the stream says; None where it does not."""

    def read(self, packet: bytes) -> TimedPicture[HeaderT]:
        """Say what a packet is."""

    def check_left_out(self, packet: bytes, picture: TimedPicture[HeaderT]) -> None:
        """Make sure that a decoder would take the packet and show a frame, whatever else is damaged in it."""


@dataclass(slots=True)
class _Item(Generic[HeaderT]):
    """A packet, its time, its picture, the number of its frame once that is known, and whether it is sent."""

    packet: Packet[VideoStream]
    pts: int
    picture: TimedPicture[HeaderT]
    number: int = -1
    is_needed: bool = False


def timed_route_maker(make_reader: Callable[[bytes], TimedReader[HeaderT]]) -> RouteMaker:
    """Make a codec's `RouteMaker` out of what makes its readers from extra data."""

    def make_route(packets: Packets, wanted: Wanted, extradata: bytes) -> Route:
        try:
            yield from _make_route(packets, wanted, make_reader(extradata))
        except EOFError as error:
            raise UnusualStreamError("a header that is cut off, or too long") from error

    return make_route


def _make_route(packets: Packets, wanted: Wanted, reader: TimedReader[HeaderT]) -> Route:
    last_pts, delay = None, 0
    for group in _groups(packets, reader, wanted):
        first, shown = group[0].number, sorted(group, key=lambda item: item.pts)
        _check_times(shown, last_pts)
        delay = _check_delay(group, max(delay, reader.num_reordered or 0))
        for number, item in enumerate(shown, first):
            item.number = number
        _mark_needed(group, wanted.numbers, num_always=NUM_ALWAYS_SENT - first)
        foreseen: Sequence[Foreseen] = [Foreseen(item.number, pts=item.pts) for item in shown if item.is_needed]
        for item in group:
            if item.is_needed:
                yield item.packet, foreseen
                foreseen = ()
            else:
                reader.check_left_out(bytes(item.packet), item.picture)
        last_pts = shown[-1].pts
    yield None, ()


def _groups(packets: Packets, reader: TimedReader[HeaderT], wanted: Wanted) -> Iterator[list[_Item[HeaderT]]]:
    """Give the packets from one closed picture to the next, numbered as they come.

    The last group ends where the numbers of the wanted frames are known.
    """
    group: list[_Item[HeaderT]] = []
    num_bytes, has_free = 0, False
    for number, packet in enumerate(packets):
        data, pts = bytes(packet), packet.pts
        picture = reader.read(data)
        has_free |= not picture.is_reference
        if number == NUM_LOOKED_AT:
            wanted.check_worth(has_free=has_free)
        if pts is None or packet.has_sidedata("new_extradata") or not (number or picture.is_closed):
            raise UnusualStreamError("a packet without a time, or with headers aside, or an open start")
        if picture.is_closed and group:
            yield group
            if number > wanted.last:
                return
            group, num_bytes = [], 0
        group.append(_Item(packet, pts, picture, number))
        num_bytes += len(data)
        if num_bytes > MAX_HELD_BYTES:
            raise UnusualStreamError("more packets than may be held in memory")
        if number > wanted.last + _MAX_DELAY:
            break
    if not group or group[-1].number < wanted.last:
        raise UnusualStreamError("fewer frames than are wanted")
    yield group


def _check_times(shown: Sequence[_Item[HeaderT]], last_pts: int | None) -> None:
    """Refuse times that are not those of the codec's own order, or of frames before the group."""
    if last_pts is not None and shown[0].pts <= last_pts:
        raise UnusualStreamError("times that fall")
    for one, other in pairwise(shown):
        if one.pts >= other.pts or one.picture.order >= other.picture.order:
            raise UnusualStreamError("times that are not in the order of display")


def _check_delay(group: Sequence[_Item[HeaderT]], known: int) -> int:
    """Refuse pictures that stand behind more later ones than is known to be possible.

    Args:
        group: Packets in the order of decoding.
        known: Most such pictures so far, or as the stream says.

    Returns:
        The same with what the first pictures show: those are sent, so that frames out of order would be noticed.
    """
    orders: list[int] = []
    for item in group:
        order = item.picture.order
        delay = len(orders) - bisect(orders, order)
        insort(orders, order)
        if delay > known:
            if item.number >= NUM_ALWAYS_SENT:
                raise UnusualStreamError("pictures out of order further than the first ones")
            known = delay
    return known


def _mark_needed(group: Sequence[_Item[HeaderT]], wanted: Collection[int], *, num_always: int) -> None:
    """Mark the packets that must be sent; the first one stays first, and so do `num_always` in all."""
    is_referred_to = False
    for place in range(len(group) - 1, -1, -1):
        item = group[place]
        is_wanted = item.number in wanted or place < num_always
        item.is_needed = is_wanted or (is_referred_to and item.picture.is_reference)
        is_referred_to |= is_wanted
