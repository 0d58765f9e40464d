"""Videos whose pixels spell their frame number, and contracts that decoders must keep.

For the tests of this package and of anything built on it. Nothing in the package imports this one; the videos are made
with PyAV, so the `ffmpeg` program is not needed, and the expected frames never come from a decoder of ours.
"""

from clipfeed.testing.avi import AviHeader, write_avi
from clipfeed.testing.bare import decode_bare
from clipfeed.testing.broken import (
    REFUSED_KINDS,
    RefusedKind,
    damage_file,
    make_fifo,
    truncate_file,
    write_audio_only,
    write_without_frames,
    write_without_moov,
)
from clipfeed.testing.contracts import DecoderTests
from clipfeed.testing.kinds import VIDEO_KINDS, VideoKind, video_kind
from clipfeed.testing.marker import (
    MAX_FRAME_NUMBER,
    MAX_VIDEO_NUMBER,
    paint_numbered_frame,
    read_frame_number,
    read_frame_numbers,
    read_video_number,
    read_video_numbers,
)
from clipfeed.testing.mpeg4_packed import write_not_coded_mpeg4, write_packed_mpeg4
from clipfeed.testing.odd import (
    PATCH_COLOURS,
    VARIABLE_RATE_NUMBERS,
    read_patches,
    write_colour_patches,
    write_rotated,
    write_size_change,
    write_untold_delay,
    write_variable_rate,
    write_with_audio,
    write_with_cover,
    write_without_packets,
)
from clipfeed.testing.packs import make_entries, make_entry_plan, make_frames, make_pack_key
from clipfeed.testing.plans import make_geometry, make_plan, make_record
from clipfeed.testing.trees import TreeVideo, make_tree
from clipfeed.testing.vpx_hidden import write_hidden_vp8, write_hidden_vp9
from clipfeed.testing.write import Encoding, encoding_for, write_frames, write_numbered_video

__all__ = [
    "MAX_FRAME_NUMBER",
    "MAX_VIDEO_NUMBER",
    "PATCH_COLOURS",
    "REFUSED_KINDS",
    "VARIABLE_RATE_NUMBERS",
    "VIDEO_KINDS",
    "AviHeader",
    "DecoderTests",
    "Encoding",
    "RefusedKind",
    "TreeVideo",
    "VideoKind",
    "damage_file",
    "decode_bare",
    "encoding_for",
    "make_entries",
    "make_entry_plan",
    "make_fifo",
    "make_frames",
    "make_geometry",
    "make_pack_key",
    "make_plan",
    "make_record",
    "make_tree",
    "paint_numbered_frame",
    "read_frame_number",
    "read_frame_numbers",
    "read_patches",
    "read_video_number",
    "read_video_numbers",
    "truncate_file",
    "video_kind",
    "write_audio_only",
    "write_avi",
    "write_colour_patches",
    "write_frames",
    "write_hidden_vp8",
    "write_hidden_vp9",
    "write_not_coded_mpeg4",
    "write_numbered_video",
    "write_packed_mpeg4",
    "write_rotated",
    "write_size_change",
    "write_untold_delay",
    "write_variable_rate",
    "write_with_audio",
    "write_with_cover",
    "write_without_frames",
    "write_without_moov",
    "write_without_packets",
]
