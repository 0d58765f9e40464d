"""One file -> what is known of it: the exact number of frames it shows, its shape, its rate.

Three tiers, each believed only under conditions that were held against decoding on more than a thousand files: the
container's sample table, a packet scan, a counting decode. The record says which of them answered. The header's number
is recorded and never believed. No pixel is converted here, and nothing is kept open.

    FoundVideo -probe_video-> VideoInfo        a moment; what `index` stores
    FoundVideo -check_video-> CheckedVideo     decodes every frame; what `clipfeed check` prints
"""

from clipfeed.probe.check import CheckedVideo, check_video
from clipfeed.probe.tiers import probe_video

__all__ = ["CheckedVideo", "check_video", "probe_video"]
