#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Makes the files of the demuxer's tests: demux_clips.sh FOLDER STAMP
set -eu
out=$1
stamp=$(realpath "$2")
mkdir -p "$out"
cd "$out"
run() { ffmpeg -hide_banner -loglevel error -nostdin -y "$@"; }
video='testsrc2=size=160x120:rate=25:duration=2.4'
tone='sine=frequency=440:sample_rate=48000:duration=2.4'
exact='-fflags +bitexact -flags:v +bitexact -flags:a +bitexact -threads 1'
x264='-c:v libx264 -preset fast -pix_fmt yuv420p -bf 3 -b_strategy 0 -g 12 -sc_threshold 0'

# Key frames every 0.48 s, B-frames, AAC; the index is at the end, as ffmpeg writes it.
# shellcheck disable=SC2086 # lists of words
run -f lavfi -i "$video" -f lavfi -i "$tone" $x264 -c:a aac -b:a 48k $exact av.mp4
run -i av.mp4 -c copy -fflags +bitexact av.mkv
run -i av.mp4 -c copy -fflags +bitexact av.ts
run -i av.mp4 -c copy -movflags +faststart -fflags +bitexact fast.mp4
run -i av.mp4 -map 0:v -c copy -movflags frag_keyframe+empty_moov+default_base_moof \
  -fflags +bitexact fragments.mp4
# Starts between key frames: packets before the start are there, but hidden by the edit list.
run -ss 0.42 -i av.mp4 -map 0:v -c copy -fflags +bitexact edit.mp4
# A times' origin that isn't 0.
run -i av.mp4 -map 0:v -c copy -output_ts_offset 1000.5 -fflags +bitexact offset.ts

# A cover picture beside the video.
run -f lavfi -i 'color=c=red:size=64x64' -frames:v 1 -c:v mjpeg cover.jpg
run -i cover.jpg -i av.mp4 -map 0 -map 1:v -c copy -disposition:v:0 attached_pic \
  -fflags +bitexact cover.mp4

# Audio, text and a time code before the video.
printf '1\n00:00:00,200 --> 00:00:00,900\nfirst\n\n2\n00:00:01,500 --> 00:00:01,900\nsecond\n' \
  > text.srt
run -i av.mp4 -i text.srt -map 0:a -map 1:s -map 0:v -c copy -c:s mov_text \
  -metadata:s:a language=deu -timecode 01:00:00:00 -fflags +bitexact tracks.mp4
run -i av.mp4 -i text.srt -map 0:a -map 1:s -map 0:v -c copy -c:s srt -fflags +bitexact tracks.mkv

# Full range, anamorphic.
# shellcheck disable=SC2086
run -f lavfi -i 'testsrc2=size=160x120:rate=30000/1001:duration=0.3,setsar=4/3' $x264 \
  -color_range pc -colorspace bt709 -color_primaries bt709 -color_trc bt709 $exact color.mp4
# Interlaced, top field first.
# shellcheck disable=SC2086
run -f lavfi -i 'testsrc2=size=160x128:rate=50:duration=0.4,tinterlace=interleave_top,setfield=tff' \
  $x264 -x264-params tff=1 $exact -flags:v +bitexact+ildct+ilme fields.mp4
# Other codecs.
# shellcheck disable=SC2086
run -f lavfi -i 'testsrc2=size=160x120:rate=25:duration=0.4' -f lavfi \
  -i 'sine=sample_rate=48000:duration=0.4' -c:v libvpx-vp9 -deadline realtime -cpu-used 8 \
  -c:a libopus $exact other.webm
# shellcheck disable=SC2086
run -f lavfi -i 'testsrc2=size=160x120:rate=25:duration=0.4' -f lavfi \
  -i 'sine=sample_rate=48000:duration=0.4' -c:v libx265 -x265-params log-level=none -tag:v hvc1 \
  -c:a flac -strict -2 $exact other.mp4

# Larger than what is read ahead: a pipe can't be wound back to its start.
# shellcheck disable=SC2086
run -f lavfi -i 'testsrc2=size=640x360:rate=25:duration=2,noise=alls=30:allf=t' $x264 -crf 18 \
  -an $exact large.mp4

# Damaged.
head -c $(($(wc -c < fast.mp4) * 60 / 100)) fast.mp4 > cut.mp4
head -c $(($(wc -c < av.mp4) * 60 / 100)) av.mp4 > headless.mp4
printf 'This is a note about films, and no film.\n' > note.txt
: > empty.mp4

: > "$stamp"
