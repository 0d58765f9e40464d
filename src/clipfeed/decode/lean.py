"""A decoder that sends FFmpeg only what wanted frames depend on, and gives what the plain one gives.

One way for all codecs: a codec's module reads packets and says which of them are to be sent and which frames must then
come out; here they are sent, and what comes out is compared, frame by frame. On the least difference, on damage, on a
complaint in FFmpeg's log, on anything unusual, and for codecs that nobody here knows, the clip is decoded plainly from
the start. Nothing here seeks or knows a codec.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain

import av
import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed._ffmpeg import OpenVideo, captured_log, open_avi_header, open_container
from clipfeed.decode import mjpeg
from clipfeed.decode.h264 import H264Reader
from clipfeed.decode.mpeg4 import Mpeg4Reader
from clipfeed.decode.mpeg12 import Mpeg12Reader
from clipfeed.decode.pixels import write_picture
from clipfeed.decode.plain import PlainDecoder
from clipfeed.decode.references import reference_route_maker
from clipfeed.decode.route import MAX_HELD_BYTES, Family, Foreseen, UnusualStreamError, Wanted
from clipfeed.decode.timed import timed_route_maker
from clipfeed.decode.trouble import took_too_long
from clipfeed.decode.work import Clipwork, Deadline, Packets, opened
from clipfeed.errors import DecodeError

__all__ = ["LeanDecoder"]

# Without a prediction for a motion vector that points outside, what the buffer held before is shown
# (libavcodec/mpegvideo_motion.c).
_MPEG12 = Family(
    make_route=reference_route_maker(Mpeg12Reader),
    may_interlace=True,
    log_level=av.logging.DEBUG,
    damage_notes=("concealing ", "MPEG motion vector out of boundary"),
)
_FAMILIES: Mapping[str, Family] = {
    "h264": Family(make_route=timed_route_maker(H264Reader)),
    "mjpeg": Family(make_route=mjpeg.make_route),
    "mpeg1video": _MPEG12,
    "mpeg2video": _MPEG12,
    "mpeg4": Family(make_route=reference_route_maker(Mpeg4Reader), open_avi=open_avi_header),
}

# Containers whose times are made up.
_WITHOUT_TIMES = frozenset({("h264", "avi")})

# The first pictures of a stream are sent in any case, so that nothing is saved on a clip that ends there.
_MIN_LAST_FRAME = 18

# Reading a packet's header takes up to about a sixteenth of the time of decoding it.
_MIN_SAVED = 16


class LeanDecoder(PlainDecoder):
    """Decodes from the start of the file, without pictures that no wanted frame needs.

    Frames are those of `PlainDecoder`, bit for bit. So is `is_damaged`, but for damage that was never decoded: behind a
    damaged picture that was left out, the plain decoder marks frames that are as they should be.

    Args:
        timeout_seconds: As for `PlainDecoder`.
    """

    def __repr__(self) -> str:
        return f"LeanDecoder(timeout_seconds={self.timeout_seconds!r})"

    def _fill(self, work: Clipwork) -> None:
        family = _family_of(work)
        if family is None:
            super()._fill(work)
            return
        is_avi = work.plan.record.info.container == "avi"
        with opened(work.plan.record, family.open_avi if is_avi else open_container) as video:
            source = _Source(video.packets(), work.deadline)
            if self._fill_leanly(work, family, video, source):
                return
            again = source.again()
            if again is not None:
                self._fill_from(work, video, again)
                return
        super()._fill(work)

    def _fill_leanly(self, work: Clipwork, family: Family, video: OpenVideo, source: _Source) -> bool:
        """Write each wanted frame into its place; False where that is left to the plain decoder."""
        reformatter, num_left = self._reformatter(), len(work.place_of)
        with captured_log(family.log_level) as log:
            try:
                for number, frame in _foreseen_frames(work, family, video, source):
                    place = work.place_of.get(number)
                    if place is not None:
                        write_picture(frame, work.geometry, reformatter, work.frames[place])
                        num_left -= 1
                        if not num_left:
                            return not any(family.tells_of_damage(level, message) for level, _, message in log)
            except (UnusualStreamError, DecodeError, av.FFmpegError):
                return False
            except TimeoutError as error:
                raise took_too_long(work.plan, self.timeout_seconds, num_shown=0) from error
        return False


class _Source:
    """Gives packets, and holds them, so that all can be given once more as long as none was sent to the decoder.

    Args:
        packets: The packets of a video.
        deadline: By when they must be read.
    """

    def __init__(self, packets: Packets, deadline: Deadline) -> None:
        self._packets = packets
        self._deadline = deadline
        self._held: list[Packet[VideoStream]] | None = []

    def sound_packets(self) -> Packets:
        """Give the packets, of which none is marked as damaged or hidden, the first one a key.

        Raises:
            UnusualStreamError: If one is.
            TimeoutError: If the deadline has passed.
        """
        num_bytes, is_first = 0, True
        for packet in self._packets:
            if self._held is not None:
                self._held.append(packet)
                num_bytes += packet.size
                if num_bytes > MAX_HELD_BYTES:
                    self.forget()
            if packet.is_corrupt or packet.is_discard or (is_first and not packet.is_keyframe):
                raise UnusualStreamError("a packet that is damaged or not to be shown")
            is_first = False
            self._deadline.check()
            yield packet

    def forget(self) -> None:
        """Hold nothing from now on."""
        self._held = None

    def again(self) -> Packets | None:
        """Give all packets once more, or None where that cannot be."""
        return None if self._held is None else chain(self._held, self._packets)


def _family_of(work: Clipwork) -> Family | None:
    """Give what knows the codec, or None where nobody does or nothing can be saved."""
    info = work.plan.record.info
    if max(work.place_of) < _MIN_LAST_FRAME or (info.codec, info.container) in _WITHOUT_TIMES:
        return None
    return _FAMILIES.get(info.codec)


def _foreseen_frames(
    work: Clipwork, family: Family, video: OpenVideo, source: _Source
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Give frames, the wanted ones among them, and their numbers.

    Raises:
        UnusualStreamError: If this is no stream whose frames are known beforehand, or something else came out.
        DecodeError: If something cannot be read or decoded.
        TimeoutError: If the deadline has passed.
    """
    awaited: deque[Foreseen] = deque()
    extradata = video.stream.codec_context.extradata or b""
    for packet, foreseen in family.make_route(source.sound_packets(), _wanted(work), extradata):
        source.forget()
        work.deadline.check()
        awaited.extend(foreseen)
        for frame in video.decode(packet):
            if not awaited or frame.is_corrupt or (frame.interlaced_frame and not family.may_interlace):
                raise UnusualStreamError("a frame that is surplus, damaged or interlaced")
            number, kind, pts = awaited.popleft()
            if frame.pict_type != (kind or frame.pict_type) or (pts is not None and frame.pts != pts):
                raise UnusualStreamError("another frame than was foreseen")
            yield number, frame


def _wanted(work: Clipwork) -> Wanted:
    """Say which frames are wanted, and guess from the index whether the ends of groups are worth saving.

    Where a key packet follows, what stands between it and the wanted frame before it may be left out.
    """
    wanted = np.array(sorted(work.place_of), np.int64)
    keys = work.plan.record.info.key_frames
    keys = keys[(keys > 0) & (keys <= wanted[-1])]
    starts = np.concatenate(([0], keys[:-1]))[: len(keys)]
    behind = np.concatenate(([-1], wanted))[wanted.searchsorted(keys)] + 1
    num_saved = int((keys - np.maximum(starts, behind)).sum())
    last = int(wanted[-1])
    return Wanted(numbers=work.place_of, last=last, saves_ends=num_saved > last // _MIN_SAVED)
