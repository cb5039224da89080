#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""cudapacketdec beside nvh264dec and a bare NVCUVID loop, on one clip, in one run.

    compare_decoders.py BUILD CLIP.mp4 [REPEATS]

Each pipeline decodes the clip once and five times over (a byte stream, concatenated) in a process of
its own; the difference of the two is its steady state, what is left its start-up. Runs are
interleaved; medians are printed, and the spread. Needs GST_PLUGIN_PATH_1_0 and a GPU.
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
PIPELINES = {
    "cudapacketdec": f"cudapacketdec ! {FRAMES_IN_CUDA} ! fakesink sync=false",
    "cudapacketdec record-stream":
        f"cudapacketdec reuse-policy=record-stream ! {FRAMES_IN_CUDA} ! fakesink sync=false",
    "cudapacketdec ! cudacolorconvert":
        f"cudapacketdec ! cudacolorconvert ! {FRAMES_IN_CUDA},format=RGB ! fakesink sync=false",
    "nvh264dec": "nvh264dec ! video/x-raw(memory:CUDAMemory) ! fakesink sync=false",
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


def has_element(name):
    return subprocess.run(["gst-inspect-1.0", name], stdout=subprocess.DEVNULL).returncode == 0


def main():
    work = tempfile.mkdtemp()
    once, often = f"{work}/once.h264", f"{work}/often.h264"
    launch(f"filesrc location={clip} ! qtdemux ! h264parse ! "
           f"video/x-h264,stream-format=byte-stream,alignment=au ! filesink location={once}")
    with open(often, "wb") as target:
        for _ in range(PASSES):
            with open(once, "rb") as source:
                shutil.copyfileobj(source, target)
    counted = run(["gst-launch-1.0"] + f"filesrc location={once} ! h264parse ! "
                  "video/x-h264,alignment=au ! fakesink silent=false -v".split())[2]
    frames = len(re.findall(r"last-message = chain ", counted))
    names = [name for name in PIPELINES if has_element(name.split()[0])]
    for name in names:  # warm the registry, the page cache, the driver
        launch(f"filesrc location={once} ! h264parse ! {PIPELINES[name]}")
    walls = {name: ([], []) for name in names}
    cpus = {name: ([], []) for name in names}
    mp4 = []
    bare_fps, bare_cpu, bare_start = [], [], []
    for _ in range(repeats):
        text = run([f"{build}/tests/bench/bare_nvcuvid_loop", "-n", str(PASSES), clip])[2]
        fps, start, cpu = parse_bare(text)
        bare_fps.append(fps)
        bare_start.append(start)
        bare_cpu.append(cpu)
        for name in names:
            for index, path in enumerate((once, often)):
                wall, cpu, _ = launch(f"filesrc location={path} ! h264parse ! {PIPELINES[name]}")
                walls[name][index].append(wall)
                cpus[name][index].append(cpu)
        mp4.append(launch(f"filesrc location={clip} ! cudademux ! {PIPELINES['cudapacketdec']}")[0])
    shutil.rmtree(work)

    bare = statistics.median(bare_fps)
    print(f"{frames} frames, {repeats} runs each, medians (least to most)")
    print(f"bare NVCUVID loop: {bare:.1f} fps ({min(bare_fps):.1f} to {max(bare_fps):.1f}), "
          f"start-up {statistics.median(bare_start):.2f} s, "
          f"{statistics.median(bare_cpu):.3f} ms CPU a frame")
    print(f"{'pipeline':34} {frames:>5} s  {PASSES * frames:>5} s  start s  steady fps  of bare  "
          f"CPU ms/frame")
    more = (PASSES - 1) * frames
    steady = {}
    for name in names:
        short, long = (statistics.median(values) for values in walls[name])
        cpu = (statistics.median(cpus[name][1]) - statistics.median(cpus[name][0])) / more * 1000
        steady[name] = more / (long - short)
        start = short - frames / steady[name]
        print(f"{name:34} {short:7.2f}  {long:7.2f}  {start:7.2f}  {steady[name]:10.1f}  "
              f"{steady[name] / bare:7.3f}  {cpu:12.3f}   ({min(walls[name][1]):.2f} to "
              f"{max(walls[name][1]):.2f})")
    both = steady["cudapacketdec ! cudacolorconvert"] / steady["cudapacketdec"]
    print(f"decode + convert / decode: {both:.3f}")
    print(f"MP4 through cudademux, whole process: {statistics.median(mp4):.2f} s for {frames} frames")


def parse_bare(text):
    numbers = [float(word) for word in re.findall(r"[-+]?\d+\.\d+", text)]
    if len(numbers) < 3:
        sys.exit(f"can't read: {text}")
    return numbers[0], numbers[1], numbers[2]


if __name__ == "__main__":
    os.environ.setdefault("GST_DEBUG", "1")
    main()
