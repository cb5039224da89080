#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Takes one ordering step at a time out of a copy of the sources, and sees that the tests notice.

    mutants.py SOURCE WORK [NAME...]

WORK: a folder for the copy and its build; made, and used again. NAME: only these. Each mutant is
built, and the order tests run: it must be reported by the happens-before checker, or where only the
host's own accesses go wrong, by what a test reads. Last line: N mutants, K not noticed.
"""
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys

REPORT = "cudaframe-sim: RACE"
STALE = "is no stream"
UNMAPPED = "that is not mapped"
CONTENT = "[  FAILED  ]"

# name: (file, text that occurs once, what takes its place, how it shows)
MUTANTS = {
    "ready-wait": (
        "src/memory/fence.cpp",
        "    if (stream == writer_) return {};\n    events = events_to_wait(false);",
        "    return {};", REPORT),
    "ready-wait-of-applications": (
        "src/memory/fence.cpp",
        "    CUDAFRAME_TRY(check_open());\n    events = events_to_wait(false);\n  }\n"
        "  return wait_for(events, stream);",
        "    CUDAFRAME_TRY(check_open());\n  }\n  return wait_for(events, stream);", REPORT),
    "ready-record": (
        "src/memory/fence.cpp", "  ready_ = std::move(write->done);\n", "", REPORT),
    "ready-record-before-the-copy": (
        "src/decode/nvdec_session.cpp",
        "  CUDAFRAME_TRY(memory::copy_async(stream_->context(), memory::FrameView::of(frame), from,\n"
        "                                   stream_->handle()));\n"
        "  CUDAFRAME_TRY(frame.fence().record_write(stream_));\n",
        "  CUDAFRAME_TRY(frame.fence().record_write(stream_));\n"
        "  CUDAFRAME_TRY(memory::copy_async(stream_->context(), memory::FrameView::of(frame), from,\n"
        "                                   stream_->handle()));\n", REPORT),
    "ready-record-of-the-converter": (
        "gst/elements/gstcudacolorconvert.cpp",
        "                                         stream->handle()));\n"
        "  CUDAFRAME_TRY(to.fence().record_write(stream));\n",
        "                                         stream->handle()));\n", REPORT),
    "reader-record-of-the-converter": (
        "gst/elements/gstcudacolorconvert.cpp",
        "  return frame.fence().add_reader({std::move(*done), stream});", "  return {};", REPORT),
    "reader-record-of-applications": (
        "src/memory/fence.cpp", "  readers_.push_back(std::move(reader));\n", "", REPORT),
    "record-stream-at-the-drop": (
        "src/memory/fence.cpp", "    recorded.swap(recorded_streams_);\n",
        "    recorded_streams_.clear();\n", REPORT),
    "reader-record-of-the-cpu-map": (
        "src/download/transfer.cpp",
        "  return from.fence().add_reader({std::move(*done), stream_});", "  return {};", REPORT),
    "reuse-wait": (
        "src/memory/memory_policy.cpp",
        "    status = reader.done->make_stream_wait(writer->handle());\n", "", REPORT),
    "reuse-wait-for-another-writer": (
        "src/memory/memory_policy.cpp",
        "  if (history.ready && history.last_writer != writer) {\n", "  if (false) {\n", REPORT),
    "record-stream-hands-out-at-once": (
        "src/memory/record_stream_policy.cpp",
        "  if (block->history.readers.empty()) {\n    cache(std::move(block));",
        "  block->history.readers.clear();\n"
        "  if (block->history.readers.empty()) {\n    cache(std::move(block));", REPORT),
    "unmap-order": (
        "src/decode/nvdec_session.cpp",
        "  const memory::FrameView from{",
        "  CUDAFRAME_TRY(mapped->unmap());\n  const memory::FrameView from{", UNMAPPED),
    "wait-in-the-cpu-map": (
        "src/download/transfer.cpp",
        "  if (!host) return host;\n  CUDAFRAME_TRY(frame.fence().wait(stream_));\n",
        "  if (!host) return host;\n", REPORT),
    "host-wait-in-the-cpu-map": (
        "gst/cudaframe/gstcudaframememory.cpp",
        "  Status status = self->host->fence().synchronize();\n", "  Status status;\n", CONTENT),
    "wait-before-writing-back": (
        "src/download/transfer.cpp",
        "  CUDAFRAME_TRY(frame.fence().wait_to_write(stream_->handle()));\n", "", REPORT),
    "readers-before-writing-in-place": (
        "src/memory/fence.cpp", "    events = events_to_wait(true);",
        "    events = events_to_wait(false);", REPORT),
    "upload-order": (
        "gst/elements/gstcudaupload.cpp",
        "  Status status = pinned.ok() ? (*pinned)->fence().synchronize() : pinned.status();\n",
        "  Status status = pinned.ok() ? Status() : pinned.status();\n", CONTENT),
    "stream-kept-alive": (
        "src/memory/fence.cpp", "  writer_ = stream;\n",
        "  writer_ = cuda::StreamPtr(cuda::StreamPtr(), stream.get());\n", STALE),
}

ELEMENTS = ["frame_memory", "cudacolorconvert", "cudacolorconvert_buffers",
            "cudacolorconvert_colors", "cudapacketdec", "cudapacketdec_pipelines"]
TARGETS = ["tests/sim/libnvcuvid.so.1", "gst/elements/libgstcudaframe.so",
           "tests/order/hazards_test", "tests/order/pipelines_test",
           *(f"tests/elements/{name}_test" for name in ELEMENTS)]
TESTS = ["order_hazards", "order_pipelines", *(f"lazy_{name}" for name in ELEMENTS)]


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)


def must(command, **options):
    done = run(command, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")


def copy_changed(source, target):
    """Only what differs, with a new time: objects of the last mutant are older than it."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy(source, target)


def copy_sources(source, copy):
    for name in ("meson.build", "meson_options.txt", "gst", "src", "tests", "docs", "README.md"):
        if (source / name).is_dir():
            shutil.copytree(source / name, copy / name, dirs_exist_ok=True,
                            copy_function=copy_changed)
        else:
            copy.mkdir(parents=True, exist_ok=True)
            copy_changed(source / name, copy / name)


def test(build):
    """The tests that failed, and what all of them print."""
    environment = dict(os.environ, CUDAFRAME_SEEDS="4")
    done = run(["meson", "test", "-C", str(build), "--no-rebuild", "-t", "0.25", *TESTS],
               env=environment)
    log = (build / "meson-logs/testlog.txt").read_text(errors="replace")
    failed = re.findall(r"gst-cudaframe:order / (\S+) +(?:FAIL|TIMEOUT)", done.stdout)
    if done.returncode != 0 and not failed:
        sys.exit(f"the tests can't run\n{done.stdout[-4000:]}")
    return sorted(set(failed)), log


def main():
    source, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    wanted = sys.argv[3:] or list(MUTANTS)
    copy, build = work / "source", work / "build"
    copy_sources(source, copy)
    if not (build / "build.ninja").exists():
        must(["meson", "setup", str(build), str(copy), "-Dkernels=disabled", "-Dbuildtype=plain",
              "-Dcpp_args=-O1"])
    must(["ninja", "-C", str(build), *TARGETS, "tests/support/clip.mp4",
          "tests/support/small_clip.mp4", "tests/support/order-clips.stamp"])
    failed, log = test(build)
    if failed:
        sys.exit(f"the tests fail without any mutation\n{log[-4000:]}")
    unnoticed = []
    for name in wanted:
        path, text, instead, sign = MUTANTS[name]
        original = (copy / path).read_text()
        if original.count(text) != 1:
            sys.exit(f"{name}: {path} has the text {original.count(text)} times")
        (copy / path).write_text(original.replace(text, instead))
        must(["ninja", "-C", str(build), *TARGETS])
        failed, log = test(build)
        (copy / path).write_text(original)
        noticed = bool(failed) and sign in log
        print(f"{name}: {'noticed' if noticed else 'NOT NOTICED'} ({sign}) by "
              f"{', '.join(failed) or 'nothing'}", flush=True)
        if not noticed:
            unnoticed.append(name)
    print(f"{len(wanted)} mutants, {len(unnoticed)} not noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
