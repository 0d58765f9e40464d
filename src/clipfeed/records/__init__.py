"""What is handed from one step of a clip's journey to the next.

    key -find-> FoundVideo -probe-> VideoInfo -index-> VideoRecord -split-> named part
      -order-> example number -sample-> ClipPlan -load[decode | transform]-> Clip -batch-> Batch -deliver-> fit()

All of it is frozen data, checked when it is made. Nothing here opens a file or knows how a value came about.
"""

from clipfeed.records._arguments import check_choice, checked_flag, checked_path, checked_seed
from clipfeed.records._clips import Batch, Clip, ClipPlan, Geometry
from clipfeed.records._index import (
    RepeatedTexts,
    StoreRef,
    TextColumn,
    VideoColumns,
    VideoIndex,
    count_times,
    pack_times,
    unpack_times,
)
from clipfeed.records._spec import ClipSpec, FrameTimes, SamplingPolicy
from clipfeed.records._videos import Failure, FoundVideo, VideoInfo, VideoRecord, join_key

__all__ = [
    "Batch",
    "Clip",
    "ClipPlan",
    "ClipSpec",
    "Failure",
    "FoundVideo",
    "FrameTimes",
    "Geometry",
    "RepeatedTexts",
    "SamplingPolicy",
    "StoreRef",
    "TextColumn",
    "VideoColumns",
    "VideoIndex",
    "VideoInfo",
    "VideoRecord",
    "check_choice",
    "checked_flag",
    "checked_path",
    "checked_seed",
    "count_times",
    "join_key",
    "pack_times",
    "unpack_times",
]
