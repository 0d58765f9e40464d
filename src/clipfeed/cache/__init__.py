"""Decoded frames, kept: behind the fixed resize, before anything random.

    choice     what the user wants: where, how much, in what form
    key        what decides the pixels of a pack, as named fields
    entries    which video an entry holds, by its content
    part       the files of a raw pack: fixed places, written in place, checked when read
    pack       entries by number: read, recall, fill
    held       the same for JPEG and for memory, where entries have no fixed place; jpeg: their files
    room       limits, older packs that go first, the fixed part that is kept
    opening    find or make the pack for a data set
    shelves    what lies in a cache folder: list, verify, clear
    contents   the entries of one pack, whatever their form; listing: which video each is
    export     one file a video, for those who want exactly that

`load` asks it before it decodes and tells it what was decoded; `dataset` copies what is at hand. Nothing here decodes
videos, plans clips or knows an epoch.
"""

from clipfeed.cache.choice import Cache, Codec, cache_of
from clipfeed.cache.entries import Entries, entries_of
from clipfeed.cache.export import ExportedPack, export_pack
from clipfeed.cache.key import PackKey
from clipfeed.cache.opening import OpenedPack, needed_bytes, open_pack
from clipfeed.cache.pack import Filling, Pack
from clipfeed.cache.room import free_bytes
from clipfeed.cache.shelves import (
    ClearedPacks,
    DamagedEntry,
    PackFacts,
    VerifiedPack,
    choose_pack,
    clear_packs,
    list_packs,
    verify_packs,
)

__all__ = [
    "Cache",
    "ClearedPacks",
    "Codec",
    "DamagedEntry",
    "Entries",
    "ExportedPack",
    "Filling",
    "OpenedPack",
    "Pack",
    "PackFacts",
    "PackKey",
    "VerifiedPack",
    "cache_of",
    "choose_pack",
    "clear_packs",
    "entries_of",
    "export_pack",
    "free_bytes",
    "list_packs",
    "needed_bytes",
    "open_pack",
    "verify_packs",
]
