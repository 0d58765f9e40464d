"""What the driver of lean decoding and those who know a codec have agreed on.

A route is what a decoder is to be sent, and what it must then show. The codec's side reads packets and says it, the
driver sends and compares. Nothing here decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import av.logging
from av.packet import Packet

from clipfeed._ffmpeg import OpenVideo, open_container
from clipfeed.decode.work import Packets

__all__ = [
    "MAX_HELD_BYTES",
    "NUM_LOOKED_AT",
    "Family",
    "Foreseen",
    "Route",
    "RouteMaker",
    "Step",
    "UnusualStreamError",
    "Wanted",
]

MAX_HELD_BYTES = 8 << 20
"""Bytes of packets that one clip may hold in memory. Files of HMDB51 and UCF101 have 1 MiB or less, 10 s of Kinetics in
340 x 256 as well; 10 s in 1920 x 1080 have about 6."""


NUM_LOOKED_AT = 32
"""Packets after which a route may be given up for want of anything to save: encoders that make pictures that nothing
refers to make the first ones sooner."""


class UnusualStreamError(Exception):
    """The stream is not one whose frames are known without decoding it, or nothing is saved by knowing."""


class Foreseen(NamedTuple):
    """A frame that must come out of the decoder.

    Attributes:
        number: Its index in the video.
        kind: FFmpeg's type of it (1 is I, 2 is P, 3 is B), or None for any.
        pts: Its time in units of the stream's time base, or None for any.
    """

    number: int
    kind: int | None = None
    pts: int | None = None


Step: TypeAlias = "tuple[Packet[Any] | None, Sequence[Foreseen]]"
"""What the decoder is sent next, None for the end, and the frames that it may show from then on, in its order."""

Route: TypeAlias = "Iterator[Step]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which frames a route must lead to.

    Attributes:
        numbers: Their indices in the video.
        last: The last one of them.
        saves_ends: Whether much can be saved at the ends of groups of pictures, behind the last wanted frame of each.
    """

    numbers: Collection[int]
    last: int
    saves_ends: bool

    def check_worth(self, *, has_free: bool) -> None:
        """Give up where nothing can be saved; to be asked after `NUM_LOOKED_AT` packets.

        Args:
            has_free: Whether there were pictures among them that nothing refers to.

        Raises:
            UnusualStreamError: If so.
        """
        if not (has_free or self.saves_ends):
            raise UnusualStreamError("nothing that can be left out")


RouteMaker: TypeAlias = "Callable[[Packets, Wanted, bytes], Route]"
"""Makes a route from the packets of a stream, the wanted frames, and the stream's extra data.

It reads no more packets than it must. `UnusualStreamError` says that the clip must be decoded plainly.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one codec is decoded leanly.

    Attributes:
        make_route: What knows its packets.
        may_interlace: Whether an interlaced picture is decoded and shown by what it says itself; in other codecs
            decoders remember more than is followed here, and such a clip is decoded plainly.
        open_avi: Opens an AVI of this codec so that the same frames come out.
        log_level: Level of FFmpeg's log down to which a decoder may tell of damage.
        damage_notes: How lines begin that tell of damage although they are no errors.
    """

    make_route: RouteMaker
    may_interlace: bool = False
    open_avi: Callable[..., OpenVideo] = open_container
    log_level: int = av.logging.INFO
    # A picture that ends too early is filled up with no more than this line (libavcodec/error_resilience.c).
    damage_notes: tuple[str, ...] = ("concealing ",)

    def tells_of_damage(self, level: int, message: str) -> bool:
        """Tell whether a line of the log means damage, which a decoder may conceal with whatever came before."""
        return level <= av.logging.ERROR or message.startswith(self.damage_notes)
