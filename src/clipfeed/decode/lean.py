"""A decoder that sends FFmpeg only what wanted frames depend on, and gives what the plain one gives.

For MPEG-4 part 2, which HMDB51 and UCF101 are made of. All packets are read, only some are decoded: `mpeg4` says which
and what each of them shows. What comes out is compared with that, frame by frame. On the least difference, on damage,
on a complaint in FFmpeg's log, on anything unusual, and for every other codec, the clip is decoded plainly from the
start. Nothing here seeks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import av
from av.packet import Packet

from clipfeed._ffmpeg import OpenVideo, captured_log
from clipfeed.decode.mpeg4 import Stream, UnusualStreamError, Vop, needed
from clipfeed.decode.pixels import write_picture
from clipfeed.decode.plain import PlainDecoder
from clipfeed.decode.trouble import took_too_long
from clipfeed.decode.work import Clipwork, opened
from clipfeed.errors import DecodeError

__all__ = ["LeanDecoder"]

# Packets up to the last wanted frame are kept in memory, in each worker. Files of HMDB51 and UCF101 have 1 MiB or less.
_MAX_FILE_BYTES = 4 << 20


class LeanDecoder(PlainDecoder):
    """Decodes from the start of the file, without pictures that no wanted frame needs.

    Frames are those of `PlainDecoder`, bit for bit. So is `num_corrupt`, but for damage that was never decoded: behind
    a damaged B-frame that nothing refers to, the plain decoder counts frames that are as they should be.

    Args:
        timeout_seconds: As for `PlainDecoder`.
    """

    def __repr__(self) -> str:
        return f"LeanDecoder(timeout_seconds={self.timeout_seconds!r})"

    def _fill(self, work: Clipwork) -> None:
        if not (_is_worth_it(work) and self._fill_leanly(work)):
            super()._fill(work)

    def _fill_leanly(self, work: Clipwork) -> bool:
        """Write each wanted frame into its place; False where that is left to the plain decoder."""
        reformatter, num_left = self._reformatter(), len(work.place_of)
        with opened(work.plan.record) as video, captured_log(av.logging.ERROR) as log:
            try:
                for number, frame in _shown_frames(video, work):
                    place = work.place_of.get(number)
                    if place is not None:
                        write_picture(frame, work.geometry, reformatter, work.frames[place])
                        num_left -= 1
                        if not num_left:
                            return not any(level <= av.logging.ERROR for level, *_ in log)
            except (UnusualStreamError, DecodeError, av.FFmpegError):
                return False
            except TimeoutError as error:
                raise took_too_long(work.plan, self.timeout_seconds, num_shown=0) from error
        return False


def _is_worth_it(work: Clipwork) -> bool:
    """Tell whether a video may be lean, is small, and is read to its end without reading much in vain.

    Reading a packet costs about a tenth of decoding it.
    """
    record, last = work.plan.record, max(work.place_of)
    is_small = record.size_bytes <= _MAX_FILE_BYTES
    return record.info.codec == "mpeg4" and is_small and record.info.num_frames <= 2 * (last + 1)


def _shown_frames(video: OpenVideo, work: Clipwork) -> Iterator[tuple[int, av.VideoFrame]]:
    """Give frames, the wanted ones among them, and their numbers.

    Raises:
        UnusualStreamError: If this is no stream whose frames are known beforehand, or something else came out.
        DecodeError: If something cannot be read or decoded.
        TimeoutError: If the deadline has passed.
    """
    stream, packets = _read(video, work)
    sent = needed(stream.vops, work.place_of)
    awaited = sorted((vop.number, vop.kind) for vop in sent if vop.number is not None)[::-1]
    for vop, packet in _packets_of(sent, packets):
        work.deadline.check()
        frames = video.decode(packet)
        if frames and stream.has_b and vop is sent[0]:
            raise UnusualStreamError("a decoder that does not wait for B-VOPs")
        for frame in frames:
            # Over interlaced B-frames the decoder remembers more than is followed here.
            if not awaited or frame.is_corrupt or (stream.has_b and frame.interlaced_frame):
                raise UnusualStreamError("a frame that is surplus, damaged or interlaced")
            number, kind = awaited.pop()
            if frame.pict_type != kind + 1:  # FFmpeg's types are those of the codec, from 1
                raise UnusualStreamError("a frame of another type than foreseen")
            yield number, frame


def _read(video: OpenVideo, work: Clipwork) -> tuple[Stream, list[Packet[av.VideoStream]]]:
    """Read all packets, since only their number of frames can show that one was lost; keep what may be needed."""
    last, packets, stream = max(work.place_of), [], None
    for packet in video.packets():
        if packet.is_corrupt or packet.is_discard or (stream is None and not packet.is_keyframe):
            raise UnusualStreamError("a packet that is damaged or not to be shown")
        work.deadline.check()
        sample = bytes(packet)
        if stream is None:
            stream = Stream(video.stream.codec_context.extradata or b"", sample)
        if stream.num_shown <= last:
            packets.append(packet)
        stream.add(sample)
    if stream is None:
        raise UnusualStreamError("no packets")
    stream.finish()
    if stream.num_shown != work.plan.record.info.num_frames:
        raise UnusualStreamError("another number of frames than was counted")
    return stream, packets


def _packets_of(
    sent: Sequence[Vop], packets: Sequence[Packet[av.VideoStream]]
) -> Iterator[tuple[Vop | None, Packet[Any] | None]]:
    """Give what the decoder is sent: whole packets, parts of packed ones, and None for the end."""
    for vop in sent:
        packet = packets[vop.packet]
        if vop.second_at is None:
            yield vop, packet
        else:
            # Not Packet(bytes): FFmpeg reads some bytes behind a packet's end, and only a packet of its own has them.
            payload = vop.cut(bytes(packet))
            part: Packet[Any] = Packet(len(payload))
            part.update(payload)
            yield vop, part
    yield None, None
