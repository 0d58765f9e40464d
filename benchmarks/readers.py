"""How one clip is read: clipfeed and its peers, each the way its own documentation reads chosen frames fastest.

Every reader is given the exact frame numbers and a size, and gives (T, H, W, 3) uint8 RGB; one decoding thread each. A
package that is not installed, or cannot load, is named as absent with the reason.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from clipfeed.decode import make_decoder
from clipfeed.load import load_clip
from clipfeed.records import ClipSpec, VideoRecord
from clipfeed.sample import plan_clip

Frames = NDArray[np.uint8]
Size = tuple[int, int]

SPEC = ClipSpec(num_frames=20, image_size=(64, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One way to read a clip.

    Attributes:
        name: As in tables.
        package: The distribution it comes from.
        load: (record, frame numbers, (height, width)) -> frames; None as size: as they are stored.
        count: Path -> number of frames that it claims; None where it claims nothing.
        is_peer: False for clipfeed itself and for its plain decoder.
    """

    name: str
    package: str
    load: Callable[[VideoRecord, Sequence[int], Size | None], Frames]
    count: Callable[[str], int] | None = None
    is_peer: bool = True


def wanted_frames(record: VideoRecord, spec: ClipSpec = SPEC) -> list[int]:
    """The frames that all readers are asked for."""
    return [int(index) for index in plan_clip(record, spec).frame_indices]


def find_readers() -> tuple[list[Reader], dict[str, str]]:
    """Give all readers that are there, clipfeed first, and why others are not."""
    readers, absent = [*_clipfeed(), _pyav()], {}
    for name, make in {
        "OpenCV": _opencv,
        "decord": _decord,
        "TorchCodec": _torchcodec,
        "SPDL": _spdl,
    }.items():
        try:
            readers += make()
        except (ImportError, OSError, RuntimeError) as error:
            absent[name] = shown(error)
    return readers, absent


def shown(error: Exception) -> str:
    """An error in one line, without the folders of this machine."""
    return re.sub(r"/\S*/", "", " ".join(str(error).split()))[:160]


# clipfeed


def _clipfeed() -> list[Reader]:
    return [
        Reader(name=name, package="clipfeed", load=_load_with(make_decoder(kind, timeout_seconds=60)), is_peer=False)
        for name, kind in (("clipfeed", "auto"), ('clipfeed, decoder="plain"', "plain"))
    ]


def _load_with(decoder: Any) -> Callable[[VideoRecord, Sequence[int], Size | None], Frames]:
    def load(record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
        spec = replace(SPEC, image_size=size or (record.info.height, record.info.width))
        return load_clip(plan_clip(record, SPEC), spec, decoder).frames

    return load


# PyAV as it is mostly used


def _pyav() -> Reader:
    def load(record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
        wanted, frames = set(indices), []
        with av.open(record.path, metadata_errors="replace") as container:
            stream = container.streams.video[0]
            stream.thread_type, stream.codec_context.thread_count = "NONE", 1
            for number, frame in enumerate(container.decode(stream)):
                if number in wanted:
                    height, width = size or (frame.height, frame.width)
                    frames.append(frame.to_ndarray(format="rgb24", width=width, height=height))
                    if number == indices[-1]:
                        break
        return np.stack(frames)

    return Reader(name="PyAV, frame.to_ndarray", package="av", load=load)


# OpenCV


def _opencv() -> list[Reader]:
    cv2 = importlib.import_module("cv2")
    cv2.setNumThreads(1)
    ways = {
        "OpenCV sequential, INTER_AREA": partial(_grab_in_order, cv2, cv2.INTER_AREA),
        "OpenCV sequential, INTER_LINEAR": partial(_grab_in_order, cv2, cv2.INTER_LINEAR),
        "published answer: one seek a frame": partial(_seek_to_each, cv2),
    }
    return [
        Reader(name=name, package="opencv-python-headless", load=load, count=partial(_header_count, cv2))
        for name, load in ways.items()
    ]


def _grab_in_order(cv2: Any, how: int, record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
    """Grab every frame up to the last wanted one, retrieve the wanted ones."""
    chosen, capture, frames = set(indices), _opened(cv2, record.path), []
    for index in range(indices[-1] + 1):
        if not capture.grab():
            break
        if index in chosen:
            frames.append(_finished(cv2, capture.retrieve()[1], size, how))
    capture.release()
    return np.stack(frames)


def _seek_to_each(cv2: Any, record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
    """The published way: set the position, read one frame, twenty times."""
    capture, frames = _opened(cv2, record.path), []
    for index in indices:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        was_read, frame = capture.read()
        if not was_read:
            break
        frames.append(_finished(cv2, frame, size, cv2.INTER_LINEAR))
    capture.release()
    return np.stack(frames)


def _opened(cv2: Any, path: str) -> Any:
    return cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def _finished(cv2: Any, frame: Frames, size: Size | None, how: int) -> Frames:
    if size is not None:
        frame = cv2.resize(frame, size[::-1], interpolation=how)
    return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)


def _header_count(cv2: Any, path: str) -> int:
    capture = _opened(cv2, path)
    number = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    capture.release()
    return number


# decord, TorchCodec, SPDL


def _decord() -> list[Reader]:
    decord = importlib.import_module("decord")

    def load(record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
        height, width = size or (-1, -1)
        reader = decord.VideoReader(record.path, width=width, height=height, num_threads=1)
        return reader.get_batch(list(indices)).asnumpy()

    def count(path: str) -> int:
        return len(decord.VideoReader(path, num_threads=1))

    return [Reader(name="decord", package="decord", load=load, count=count)]


def _torchcodec() -> list[Reader]:
    decoders = importlib.import_module("torchcodec.decoders")
    transforms = importlib.import_module("torchcodec.transforms")
    importlib.import_module("torch").set_num_threads(1)

    def loader(seek_mode: str) -> Callable[[VideoRecord, Sequence[int], Size | None], Frames]:
        def load(record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
            decoder = decoders.VideoDecoder(
                record.path,
                dimension_order="NHWC",
                num_ffmpeg_threads=1,
                seek_mode=seek_mode,
                transforms=None if size is None else [transforms.Resize(size)],
            )
            return decoder.get_frames_at(indices=list(indices)).data.numpy()

        return load

    def count(path: str) -> int:
        return len(decoders.VideoDecoder(path, num_ffmpeg_threads=1))

    return [
        Reader(name="TorchCodec", package="torchcodec", load=loader("exact"), count=count),
        Reader(name="TorchCodec, approximate", package="torchcodec", load=loader("approximate"), count=count),
    ]


def _spdl() -> list[Reader]:
    spdl = importlib.import_module("spdl.io")
    _ = spdl.Demuxer  # loads FFmpeg's libraries, or says that there are none

    def load(record: VideoRecord, indices: Sequence[int], size: Size | None) -> Frames:
        height, width = size or (None, None)
        kept = spdl.get_video_filter_desc(
            scale_width=width, scale_height=height, scale_algo="bilinear", scale_mode=None, pix_fmt="rgb24"
        )
        frames = spdl.sample_decode_video(spdl.demux_video(record.path), list(indices), filter_desc=kept)
        return spdl.to_numpy(spdl.convert_frames(frames))

    def count(path: str) -> int:
        return len(spdl.demux_video(path))

    return [Reader(name="SPDL", package="spdl", load=load, count=count)]
