"""Where randomness comes from.

Every random draw of the package is a function of (seed, epoch, purpose, video): nothing here or elsewhere touches
global random state, so the number of workers, the order of calls and the machine change nothing.
"""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["generator", "hash_key", "hash_words"]


def hash_key(key: str) -> int:
    """Give the 64-bit identity of a video: the same on every machine and after every re-index.

    Args:
        key: The video's relative POSIX key, or any text that stands for a thing (a group, a purpose).

    Returns:
        An int in [0, 2**64): BLAKE2b with a digest of 8 bytes over the UTF-8 text (undecodable file names keep their
        bytes through surrogateescape), read little-endian.
    """
    digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def hash_words(*words: int | str) -> int:
    """Mix integers and texts into one 64-bit number.

    Args:
        *words: Parts of the identity of a draw, in a fixed order, such as `(seed, "order", epoch)`.

    Returns:
        An int in [0, 2**64). Parts are length-prefixed, so ("a", "bc") and ("ab", "c") differ.
    """
    digest = hashlib.blake2b(digest_size=8)
    for word in words:
        data = str(word).encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")


def generator(seed: int, epoch: int, purpose: str, video_id: int, draw: int = 0) -> np.random.Generator:
    """Give an independent generator for one draw.

    Args:
        seed: The dataset's seed.
        epoch: The epoch, from 0.
        purpose: What is drawn, such as "sample"; different purposes never share numbers.
        video_id: `hash_key` of the video's key.
        draw: Which of several clips of the video in this epoch, from 0.

    Returns:
        A PCG64 generator seeded from the 64-bit hash of the arguments.
    """
    return np.random.Generator(np.random.PCG64(hash_words(seed, epoch, purpose, video_id, draw)))
