"""Every target, at least / reach for / measured, in one table.

    python benchmarks/targets.py --hmdb51 HMDB51 --kinetics KINETICS --output targets.json
    python benchmarks/targets.py --hmdb51 HMDB51 --only import,first_batch
    python benchmarks/targets.py --hmdb51 HMDB51 --quick

HMDB51 is a folder in that data set's layout, KINETICS one of H.264 videos. Figures are medians of interleaved runs.
A row that needs a package which is absent says so. Nothing fails: it is no test.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

import clipfeed as cf
import memory
from clipfeed._ffmpeg import OpenVideo
from clipfeed.decode import make_decoder
from clipfeed.load import load_clip, video_record
from clipfeed.sample import plan_clip
from common import machine_facts, table, take_turns, videos_in, write_json
from peers import PACKAGES, compare_clips, spread, time_epochs
from pipelines import BATCH_SIZE, first_epoch_pipelines, later_epoch_pipelines
from readers import SPEC
from trees import link_tree

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One row.

    Attributes:
        what: What is measured, and in what.
        at_least: The figure to reach.
        reach_for: The figure to aim at.
        measure: Gives the measured figure and a remark.
        is_limit: True where less is better.
        unit: Behind the figures.
    """

    what: str
    at_least: float
    reach_for: float
    measure: Callable[[Bench], tuple[float, str]]
    is_limit: bool = False
    unit: str = ""

    def is_met(self, value: float, figure: float) -> bool:
        """Tell whether a measured value meets a figure."""
        return value <= figure if self.is_limit else value >= figure


class Bench:
    """Folders, sizes, and what several rows share, measured once."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.hmdb51: Path = arguments.hmdb51
        self.kinetics: Path | None = arguments.kinetics
        self.threads: int = arguments.threads
        self.runs = 2 if arguments.quick else arguments.runs
        self.quick: bool = arguments.quick
        self.scratch = scratch
        self._kept: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Measure something the first time that it is asked for."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @property
    def index(self) -> cf.VideoIndex:
        """The index of the HMDB51 folder."""
        return self.once("index", lambda: cf.build_index(self.hmdb51, index=self.scratch / "index"))

    def clips_of(self, folder: Path) -> dict[str, Any]:
        """All readers on some videos of a folder."""
        at_most = 2 if self.quick else 8
        return self.once(str(folder), lambda: compare_clips(videos_in(folder, at_most), self.runs))

    @property
    def first_epoch(self) -> dict[str, Any]:
        """Pipelines of a first epoch."""
        index = spread(self.index, 16 if self.quick else 64)
        return self.once(
            "first_epoch", lambda: time_epochs(*first_epoch_pipelines(index, self.threads), self.runs)["pipelines"]
        )

    @property
    def later_epoch(self) -> dict[str, Any]:
        """Pipelines of a later epoch."""
        index = spread(self.index, 64 if self.quick else 800)
        return self.once(
            "later_epoch",
            lambda: time_epochs(*later_epoch_pipelines(index, self.scratch, self.threads), self.runs)["pipelines"],
        )


def main() -> None:
    """Measure the rows asked for; print a table and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hmdb51", type=Path, required=True)
    parser.add_argument("--kinetics", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few clips, few runs: a look, not a measurement")
    parser.add_argument("--only", help=f"some of {','.join(TARGETS)}")
    parser.add_argument("--output", type=Path, help="where the JSON goes; rows that it has and --only leaves out stay")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(TARGETS)
    facts: dict[str, Any] = {"machine": machine_facts(*PACKAGES, "keras"), "threads": arguments.threads, "rows": {}}
    if arguments.output is not None and arguments.output.exists():
        facts["rows"] = json.loads(arguments.output.read_text())["rows"]
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(arguments, Path(scratch))
        for name in names:
            facts["rows"][name] = measured(TARGETS[name], bench) | {"load_average": machine_facts()["load_average"]}
            print(f"{name}: {facts['rows'][name]['measured']}", file=sys.stderr, flush=True)
    facts["machine"]["load_average_after"] = machine_facts()["load_average"]
    facts["rows"] = {name: facts["rows"][name] for name in TARGETS if name in facts["rows"]}
    print(f"{facts['machine']['cores']} cores, load average {facts['machine']['load_average']}\n")
    print(target_table(facts["rows"]))
    write_json(arguments.output, facts)


def measured(target: Target, bench: Bench) -> dict[str, Any]:
    """Measure one row; what it needs and is absent becomes its remark."""
    row = {key: value for key, value in asdict(target).items() if key not in ("measure",)}
    try:
        value, remark = target.measure(bench)
    except (ImportError, LookupError) as error:
        return row | {"measured": None, "remark": f"not measured: {error}"}
    return row | {
        "measured": value,
        "remark": remark,
        "meets_at_least": target.is_met(value, target.at_least),
        "meets_reach_for": target.is_met(value, target.reach_for),
    }


def target_table(rows: dict[str, dict[str, Any]]) -> str:
    """The table."""
    return table(
        ("what", "at least", "reach for", "measured", "met", "remark"),
        [
            (
                row["what"],
                f"{row['at_least']:g}{row['unit']}",
                f"{row['reach_for']:g}{row['unit']}",
                "-" if row["measured"] is None else f"{row['measured']:.3g}{row['unit']}",
                "-" if row["measured"] is None else "yes" if row["meets_at_least"] else "NO",
                row["remark"],
            )
            for row in rows.values()
        ],
    )


# First epoch


def against_best_peer(bench: Bench, folder: Path | None) -> tuple[float, str]:
    """The fastest peer's time for a clip over ours, whatever pictures it gives; and that of the fastest sound one."""
    if folder is None:
        raise LookupError("no folder given")
    peers = {name: row for name, row in bench.clips_of(folder)["readers"].items() if row["is_peer"]}
    best = min(peers, key=lambda name: peers[name]["times_as_long"])
    sound = {name: row for name, row in peers.items() if row["right_frames"] == 1 and row["gray_levels_off"] < 2}
    remark = (
        f"{best}; {peers[best]['right_frames']:.0%} of its frames right, CPU {peers[best]['times_as_long_cpu']:.2f} x"
    )
    if sound and best not in sound:
        name = min(sound, key=lambda each: sound[each]["times_as_long"])
        row = sound[name]
        remark += (
            f"; {row['times_as_long']:.2f} x (CPU {row['times_as_long_cpu']:.2f} x) against the fastest with right and "
            f"antialiased frames, {name}"
        )
    return peers[best]["times_as_long"], remark


def against_published(bench: Bench) -> tuple[float, str]:
    """Clips a second through `format="tf"` over those of the published pipeline."""
    rows = bench.first_epoch
    ours, theirs = rows['clipfeed, format="tf"'], rows["published answer: tf.data and OpenCV"]
    cpu = theirs["cpu_ms_per_clip"] / ours["cpu_ms_per_clip"]
    return ours["clips_per_second"] / theirs["clips_per_second"], (
        f"{ours['clips_per_second']:.1f} against {theirs['clips_per_second']:.1f} clips/s, CPU {cpu:.1f} x"
    )


def against_bare_decode(bench: Bench) -> tuple[float, str]:
    """Time of a bare loop (open, read, decode the same packets) over time of the whole clip, one thread."""
    decoder = make_decoder("auto", timeout_seconds=60)
    plans = [plan_clip(video_record(path), SPEC) for path in videos_in(bench.hmdb51, 2 if bench.quick else 8)]
    sent = [captured(plan, decoder) for plan in plans]
    work: dict[str, Callable[[], object]] = {
        "clip": lambda: [load_clip(plan, SPEC, decoder) for plan in plans],
        "bare": lambda: [bare_loop(plan.record.path, each) for plan, each in zip(plans, sent, strict=True)],
        "decode": lambda: [decode_alone(each) for each in sent],
    }
    times = take_turns(work, bench.runs)
    share = {name: each.middle / times["clip"].middle for name, each in times.items()}
    cpu = {name: each.middle_cpu / times["clip"].middle_cpu for name, each in times.items()}
    return share["bare"], (
        f"CPU {cpu['bare']:.2f}; with the packets in memory, not opened and not read: {share['decode']:.2f} "
        f"(CPU {cpu['decode']:.2f})"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a decoder was sent for one clip.

    Attributes:
        num_read: Packets read from the file.
        payloads: Those decoded, in order; None for the end.
        codec: Name and extra data of the codec.
    """

    num_read: int
    payloads: tuple[bytes | None, ...]
    codec: tuple[str, bytes]


def captured(plan: Any, decoder: Any) -> Sent:
    """Load a clip, and take down what its decoder is sent."""
    payloads: list[bytes | None] = []
    codec = [("", b"")]
    num_read = 0
    packets, decode = OpenVideo.packets, OpenVideo.decode

    def read(video: OpenVideo) -> Any:
        nonlocal num_read
        for packet in packets(video):
            num_read += 1
            yield packet

    def send(video: OpenVideo, packet: Any) -> Any:
        context = video.stream.codec_context
        codec[0] = (context.name, bytes(context.extradata or b""))
        payloads.append(None if packet is None else bytes(packet))
        return decode(video, packet)

    OpenVideo.packets, OpenVideo.decode = read, send  # type: ignore[method-assign]
    try:
        load_clip(plan, SPEC, decoder)
    finally:
        OpenVideo.packets, OpenVideo.decode = packets, decode  # type: ignore[method-assign]
    return Sent(num_read=num_read, payloads=tuple(payloads), codec=codec[0])


def packets_of(sent: Sent) -> list[Packet[Any] | None]:
    """The packets as FFmpeg wants them, with room behind their bytes."""
    packets: list[Packet[Any] | None] = []
    for payload in sent.payloads:
        packet = None if payload is None else Packet(len(payload))
        if packet is not None:
            packet.update(payload)
        packets.append(packet)
    return packets


def bare_loop(path: str, sent: Sent) -> int:
    """Open, read as many packets, decode the same ones; nothing else."""
    count = 0
    with av.open(path, metadata_errors="replace") as container:
        stream = container.streams.best("video")
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for number, _ in enumerate(container.demux(stream), 1):
            if number == sent.num_read:
                break
        for packet in packets_of(sent):
            count += len(stream.decode(packet))
    return count


def decode_alone(sent: Sent) -> int:
    """Decode the same packets out of memory."""
    context = av.CodecContext.create(sent.codec[0], "r")
    context.extradata = sent.codec[1] or None
    context.thread_type, context.thread_count = "NONE", 1
    return sum(len(context.decode(packet)) for packet in packets_of(sent))


# Later epochs


def cached_against_gather(bench: Bench) -> tuple[float, str]:
    """Clips a second of `batch(epoch, number)` over those of a gather from a memory map."""
    rows = bench.later_epoch
    ours = rows["clipfeed, cache, batch(epoch, number)"]["clips_per_second"]
    bare = rows["bare gather from one memory map, uint8"]["clips_per_second"]
    return ours / bare, f"{ours:,.0f} against {bare:,.0f} clips/s"


def cached_against_advice(bench: Bench) -> tuple[float, str]:
    """Clips a second through `format="tf"` from the cache over those of the published `.npy` advice."""
    rows = bench.later_epoch
    ours = rows['clipfeed, cache, format="tf", float32']
    theirs = rows["published advice: float32 .npy, tf.data"]
    cpu = theirs["cpu_ms_per_clip"] / ours["cpu_ms_per_clip"]
    as_bytes = rows["the same, uint8"]["clips_per_second"]
    return ours["clips_per_second"] / theirs["clips_per_second"], (
        f"{ours['clips_per_second']:,.0f} against {theirs['clips_per_second']:,.0f} clips/s, CPU {cpu:.1f} x; "
        f"dtype uint8: {as_bytes:,.0f}"
    )


def cached_fit_against_first(bench: Bench) -> tuple[float, str]:
    """Time of a first epoch through `fit` with a model that does nothing over that of a cached one."""
    import keras

    from clipfeed.cache import Cache

    class Nothing(keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs[:, 0, 0, 0, :1]

        def train_step(self, data: Any) -> dict[str, Any]:
            return {"loss": 0.0}

    seconds: list[float] = []

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begun = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seconds.append(time.perf_counter() - self.begun)

    index = spread(bench.index, 64 if bench.quick else 800)
    limits = cf.Limits(workers=bench.threads)
    plain = cf.VideoDataset(index, SPEC, batch_size=BATCH_SIZE, seed=1, limits=limits)
    kept = cf.VideoDataset(
        index, SPEC, batch_size=BATCH_SIZE, seed=1, limits=limits, cache=Cache(bench.scratch / "fit-cache")
    )
    model = Nothing()
    model.compile(optimizer="sgd", loss="mse")
    options = {"verbose": 0, "shuffle": False, "callbacks": [Clock()]}
    model.fit(cf.to_tensorflow(plain), epochs=1 if bench.quick else 2, **options)
    first = seconds[-1]
    seconds.clear()
    model.fit(cf.to_tensorflow(kept), epochs=2 + bench.runs, **options)
    cached = statistics.median(seconds[2:])
    return first / cached, (
        f"{len(index) / first:,.1f} and {len(index) / cached:,.0f} clips/s; the epoch that fills: "
        f"{len(index) / seconds[0]:,.1f}"
    )


# Index


def index_against_headers(bench: Bench) -> tuple[float, str]:
    """Time of the exact index over that of OpenCV's header-only scan."""
    row = _index_times(bench)
    return row["index_seconds"] / row["opencv_seconds"], (
        f"{row['index_seconds']:.2f} s against {row['opencv_seconds']:.2f} s, "
        f"CPU {row['index_cpu_seconds'] / row['opencv_cpu_seconds']:.2f}"
    )


def second_index(bench: Bench) -> tuple[float, str]:
    """Seconds of indexing again with nothing changed."""
    row = _index_times(bench)
    return row["again_seconds"], f"CPU {row['again_cpu_seconds']:.2f} s, {len(bench.index):,} files"


def _index_times(bench: Bench) -> dict[str, float]:
    from index_tree import time_all

    runs = 1 if bench.quick else max(3, bench.runs // 2)
    return bench.once("index_times", lambda: time_all(bench.hmdb51, bench.threads, runs))


# Memory


def memory_for_more_videos(bench: Bench) -> tuple[float, str]:
    """Megabytes by which the peak of an epoch is higher for many videos than for few."""
    few, many = (100, 400) if bench.quick else (100, 10_000)
    rows = {number: _memory_peak(bench, number)["peak_above_mb"] for number in (few, many)}
    return rows[many] - rows[few], f"{many:,} videos: {rows[many]:.1f} MB, {few}: {rows[few]:.1f} MB"


def memory_peak(bench: Bench) -> tuple[float, str]:
    """Megabytes above baseline and budget at the peak of an epoch."""
    budget, number = 512, 400 if bench.quick else 10_000
    peak = _memory_peak(bench, number)["peak_above_mb"]
    return peak - budget, f"peak {peak:.1f} MB above the baseline, memory_budget {budget} MB, {number:,} videos"


def _memory_peak(bench: Bench, number: int) -> dict[str, float]:
    def measure() -> dict[str, float]:
        tree = link_tree(bench.scratch / f"tree{number}", videos_in(bench.hmdb51, 8), number)
        return memory.call_child(tree, "epoch")

    return bench.once(f"memory{number}", measure)


def memory_growth(bench: Bench) -> tuple[float, str]:
    """Megabytes by which a long fit with a cache grows an epoch, after the second."""
    epochs, videos = (6, 64) if bench.quick else (30, 400)
    tree = link_tree(bench.scratch / f"tree{videos}-fit", videos_in(bench.hmdb51, 8), videos)
    above = memory.call_child(tree, "fit", "--epochs", str(epochs))["above_mb"]
    return (above[-1] - above[1]) / (
        len(above) - 2
    ), f"after epoch 2: {above[1]:.1f} MB, after {epochs}: {above[-1]:.1f}"


# Start


def import_time(bench: Bench) -> tuple[float, str]:
    """Seconds of `import clipfeed`, in processes of their own."""
    code = "import time; begun = time.perf_counter(); import clipfeed; print(time.perf_counter() - begun)"
    times = [float(_python(code)) for _ in range(1 + 2 * bench.runs)][1:]
    return statistics.median(times), f"{min(times):.3f} to {max(times):.3f} s"


def first_batch(bench: Bench) -> tuple[float, str]:
    """Seconds from the facade's call to the first batch of 8, with the index there and TensorFlow imported."""
    store = bench.scratch / "index"
    assert len(bench.index)
    code = (
        "import time, sys, tensorflow, keras, clipfeed as cf; begun = time.perf_counter();"
        " ds = cf.video_dataset_from_directory(sys.argv[1], seed=1, index=sys.argv[2], format=sys.argv[3],"
        " verbose=False); next(iter(ds)); print(time.perf_counter() - begun)"
    )
    middle = {
        format: statistics.median(
            [float(_python(code, str(bench.hmdb51), str(store), format)) for _ in range(bench.runs)]
        )
        for format in ("tf", "numpy")
    }
    return middle["tf"], f'{len(bench.index):,} files; format="numpy": {middle["numpy"]:.2f} s'


def _python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(done.stderr[-300:])
    return done.stdout.splitlines()[-1]


TARGETS: dict[str, Target] = {
    "peer_hmdb51": Target(
        what="first epoch, HMDB51 originals, against the best peer, one thread",
        at_least=1.25,
        reach_for=1.4,
        unit=" x",
        measure=lambda bench: against_best_peer(bench, bench.hmdb51),
    ),
    "published": Target(
        what="first epoch against the published answer", at_least=10, reach_for=12, unit=" x", measure=against_published
    ),
    "peer_kinetics": Target(
        what="first epoch, Kinetics-like, against the best peer, one thread",
        at_least=1.2,
        reach_for=1.4,
        unit=" x",
        measure=lambda bench: against_best_peer(bench, bench.kinetics),
    ),
    "bare_decode": Target(
        what="first epoch against decoding alone in a bare loop over the same packets",
        at_least=0.85,
        reach_for=0.95,
        measure=against_bare_decode,
    ),
    "cached_gather": Target(
        what="cached batch(epoch, number) against a plain gather from a memory map",
        at_least=0.5,
        reach_for=0.8,
        measure=cached_against_gather,
    ),
    "cached_advice": Target(
        what='cached epoch, format="tf", against the published .npy advice',
        at_least=6,
        reach_for=20,
        unit=" x",
        measure=cached_against_advice,
    ),
    "cached_fit": Target(
        what="cached against first epoch, through fit with a model that does nothing",
        at_least=20,
        reach_for=100,
        unit=" x",
        measure=cached_fit_against_first,
    ),
    "index": Target(
        what="exact index, SQLite included, in times of OpenCV's header-only scan",
        at_least=1.5,
        reach_for=1.0,
        unit=" x",
        is_limit=True,
        measure=index_against_headers,
    ),
    "index_again": Target(
        what="second index, nothing changed",
        at_least=1,
        reach_for=0.3,
        unit=" s",
        is_limit=True,
        measure=second_index,
    ),
    "memory_videos": Target(
        what="memory above the baseline, 10,000 videos against 100, a full epoch",
        at_least=10,
        reach_for=2,
        unit=" MB",
        is_limit=True,
        measure=memory_for_more_videos,
    ),
    "memory_peak": Target(
        what="peak memory above baseline and memory_budget, a full epoch",
        at_least=100,
        reach_for=30,
        unit=" MB",
        is_limit=True,
        measure=memory_peak,
    ),
    "memory_growth": Target(
        what="memory an epoch, fit of 30 epochs with a cache, after the second",
        at_least=1,
        reach_for=0.1,
        unit=" MB",
        is_limit=True,
        measure=memory_growth,
    ),
    "import": Target(
        what="import clipfeed", at_least=0.2, reach_for=0.08, unit=" s", is_limit=True, measure=import_time
    ),
    "first_batch": Target(
        what="first batch of 8 after the index exists",
        at_least=1,
        reach_for=0.3,
        unit=" s",
        is_limit=True,
        measure=first_batch,
    ),
}


if __name__ == "__main__":
    main()
