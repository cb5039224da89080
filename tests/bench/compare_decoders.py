#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""cudapacketdec beside nvh264dec and a bare NVCUVID loop, on one clip, in one run.

    compare_decoders.py BUILD CLIP.mp4 [REPEATS]

Each pipeline decodes the clip once and five times over in a process of its own: as a byte stream,
and out of an MP4 file. The difference of the two is its steady state. Start-up is from the start of
the process to the first frame at the sink, in a third run. Runs are interleaved; times are medians.
CPU time jumps between two levels from run to run, for the same program: its least is printed beside
its median. Needs GST_PLUGIN_PATH_1_0 and a GPU.
"""
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

build, clip = sys.argv[1], sys.argv[2]
repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 5
PASSES = 5

FRAMES_IN_CUDA = "video/x-raw(memory:CUDAFrame)"
OURS = f"cudapacketdec ! {FRAMES_IN_CUDA} ! fakesink sync=false"
THEIRS = "nvh264dec ! video/x-raw(memory:CUDAMemory) ! fakesink sync=false"
# name: (kind of input, what comes behind the filesrc)
PIPELINES = {
    "cudapacketdec": ("h264", f"h264parse ! {OURS}"),
    "cudapacketdec record-stream":
        ("h264", "h264parse ! " + OURS.replace(" ", " reuse-policy=record-stream ", 1)),
    "cudapacketdec ! cudacolorconvert":
        ("h264", f"h264parse ! cudapacketdec ! cudacolorconvert ! {FRAMES_IN_CUDA},format=RGB "
                 "! fakesink sync=false"),
    "nvh264dec": ("h264", f"h264parse ! {THEIRS}"),
    "MP4: cudademux ! cudapacketdec": ("mp4", f"cudademux ! {OURS}"),
    "MP4: qtdemux ! h264parse ! nvh264dec": ("mp4", f"qtdemux ! h264parse ! {THEIRS}"),
}


def run(command):
    """Wall and CPU seconds of a process, and what it printed; exits when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def launch(description):
    return run(["gst-launch-1.0", "-q"] + description.split())


def time_to_first_frame(description):
    """Seconds until a fakesink tells of its first buffer."""
    begin = time.monotonic()
    talking = description.replace("sync=false", "sync=false silent=false")
    with subprocess.Popen(["gst-launch-1.0", "-v"] + talking.split(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as child:
        for line in child.stdout:
            if "last-message = chain" in line:
                seconds = time.monotonic() - begin
                child.kill()
                return seconds
    sys.exit(f"no frame from {description}")


def has_elements(description):
    parts = [part.split()[0] for part in description.split(" ! ")]
    return all(subprocess.run(["gst-inspect-1.0", name], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
               for name in parts if not name.startswith("video/"))


def make_inputs(work):
    """The clip once and PASSES times, as a byte stream and as MP4."""
    inputs = {"h264": (f"{work}/once.h264", f"{work}/often.h264"),
              "mp4": (clip, f"{work}/often.mp4")}
    launch(f"filesrc location={clip} ! qtdemux ! h264parse ! "
           f"video/x-h264,stream-format=byte-stream,alignment=au ! "
           f"filesink location={inputs['h264'][0]}")
    with open(inputs["h264"][1], "wb") as target:
        for _ in range(PASSES):
            with open(inputs["h264"][0], "rb") as source:
                shutil.copyfileobj(source, target)
    launch(f"concat name=c ! h264parse ! mp4mux ! filesink location={inputs['mp4'][1]}"
           + f" filesrc location={clip} ! qtdemux ! identity ! c." * PASSES)
    return inputs


def count_frames(path):
    text = run(["gst-launch-1.0"] + f"filesrc location={path} ! h264parse ! "
               "video/x-h264,alignment=au ! fakesink silent=false -v".split())[2]
    return len(re.findall(r"last-message = chain ", text))


def measure(inputs, names):
    """Per pipeline: wall and CPU seconds of each run on the short and the long input; start-ups."""
    walls = {name: ([], []) for name in names}
    cpus = {name: ([], []) for name in names}
    starts = {name: [] for name in names}
    bare = []
    for name in names:  # warm the registry, the page cache, the driver
        kind, rest = PIPELINES[name]
        launch(f"filesrc location={inputs[kind][0]} ! {rest}")
    for _ in range(repeats):
        bare.append(parse_bare(
            run([f"{build}/tests/bench/bare_nvcuvid_loop", "-n", str(PASSES), clip])[2]))
        for name in names:
            kind, rest = PIPELINES[name]
            starts[name].append(time_to_first_frame(f"filesrc location={inputs[kind][0]} ! {rest}"))
            for index, path in enumerate(inputs[kind]):
                wall, cpu, _ = launch(f"filesrc location={path} ! {rest}")
                walls[name][index].append(wall)
                cpus[name][index].append(cpu)
    return walls, cpus, starts, bare


def main():
    work = tempfile.mkdtemp()
    inputs = make_inputs(work)
    frames = count_frames(inputs["h264"][0])
    names = [name for name, (_, rest) in PIPELINES.items() if has_elements(rest)]
    walls, cpus, starts, bare = measure(inputs, names)
    shutil.rmtree(work)

    rates, bare_starts, loads = zip(*bare)
    bare_fps = statistics.median(rates)
    print(f"{frames} frames, {repeats} runs each, medians (least to most)")
    print(f"bare NVCUVID loop: {bare_fps:.1f} fps ({min(rates):.1f} to {max(rates):.1f}), "
          f"start-up {statistics.median(bare_starts):.2f} s, "
          f"{statistics.median(loads):.3f} ms CPU a frame, least {min(loads):.3f}")
    print(f"{'pipeline':38} {'first s':>7} {frames:>6} s {PASSES * frames:>6} s  steady fps  "
          f"of bare  CPU ms/frame   least  CPU s of {PASSES * frames}")
    more = (PASSES - 1) * frames
    steady = {}
    for name in names:
        short, long = (statistics.median(values) for values in walls[name])
        cpu, least = ((pick(cpus[name][1]) - pick(cpus[name][0])) / more * 1000
                      for pick in (statistics.median, min))
        steady[name] = more / (long - short)
        print(f"{name:38} {statistics.median(starts[name]):7.2f} {short:8.2f} {long:8.2f}  "
              f"{steady[name]:10.1f}  {steady[name] / bare_fps:7.3f}  {cpu:12.3f}  {least:6.3f}  "
              f"{statistics.median(cpus[name][1]):6.2f}   "
              f"({min(walls[name][1]):.2f} to {max(walls[name][1]):.2f})")
    both = steady["cudapacketdec ! cudacolorconvert"] / steady["cudapacketdec"]
    print(f"decode + convert / decode: {both:.3f}")


def parse_bare(text):
    numbers = [float(word) for word in re.findall(r"[-+]?\d+\.\d+", text)]
    if len(numbers) < 3:
        sys.exit(f"can't read: {text}")
    return numbers[0], numbers[1], numbers[2]


if __name__ == "__main__":
    os.environ.setdefault("GST_DEBUG", "1")
    main()
