// SPDX-License-Identifier: LGPL-2.1-or-later
// The yardstick: the barest NVCUVID loop there can be (packets in memory, parse, decode, map, copy,
// unmap), to be run beside the elements on the same clip. Uses the driver table and nothing else
// of the product.
//
//   bare_nvcuvid_loop [-n PASSES] [-s SESSIONS] [-d DISPLAY_DELAY] FILE
//
// FILE: anything with H.264 that libavformat opens. Prints one line with the steady state's frames
// a second, the start-up's seconds, and the CPU's milliseconds per frame.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern "C" {
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
}

#include "cuda/driver.h"

namespace {

using cudaframe::cuda::CuvidDriver;
using cudaframe::cuda::Driver;
using Clock = std::chrono::steady_clock;

constexpr int kFramesInRing = 8;
constexpr unsigned kSpareSurfaces = 4;
unsigned display_delay = 4;  // -d

const Driver* cu = nullptr;
const CuvidDriver* cuvid = nullptr;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "bare_nvcuvid_loop: %s\n", what);
  std::exit(1);
}

void must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cu->cuGetErrorName(result, &name);
  std::fprintf(stderr, "bare_nvcuvid_loop: %s: %s\n", call, name ? name : "?");
  std::exit(1);
}
#define MUST(call) must((call), #call)

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto in_seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime);
}

using Packets = std::vector<std::vector<std::uint8_t>>;

AVBSFContext* open_filter(const AVStream& stream) {
  const AVCodecParameters& par = *stream.codecpar;
  const bool is_record = par.extradata_size > 0 && par.extradata[0] == 1;
  AVBSFContext* filter = nullptr;
  const AVBitStreamFilter* kind = av_bsf_get_by_name(is_record ? "h264_mp4toannexb" : "null");
  if (!kind || av_bsf_alloc(kind, &filter) < 0) die("no bitstream filter");
  avcodec_parameters_copy(filter->par_in, &par);
  if (av_bsf_init(filter) < 0) die("the bitstream filter refuses the stream");
  return filter;
}

Packets read_packets(const char* path) {
  AVFormatContext* format = nullptr;
  if (avformat_open_input(&format, path, nullptr, nullptr) < 0) die("can't open the file");
  if (avformat_find_stream_info(format, nullptr) < 0) die("can't read the file");
  const int index = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (index < 0 || format->streams[index]->codecpar->codec_id != AV_CODEC_ID_H264) {
    die("there is no H.264 in the file");
  }
  AVBSFContext* filter = open_filter(*format->streams[index]);
  Packets packets;
  AVPacket* packet = av_packet_alloc();
  while (av_read_frame(format, packet) >= 0) {
    if (packet->stream_index != index || av_bsf_send_packet(filter, packet) < 0) {
      av_packet_unref(packet);
      continue;
    }
    while (av_bsf_receive_packet(filter, packet) >= 0) {
      packets.emplace_back(packet->data, packet->data + packet->size);
      av_packet_unref(packet);
    }
  }
  av_packet_free(&packet);
  av_bsf_free(&filter);
  avformat_close_input(&format);
  return packets;
}

// One stream's decoding, on one thread.
struct Session {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUvideodecoder decoder = nullptr;
  CUvideoparser parser = nullptr;
  unsigned width = 0;
  unsigned height = 0;
  std::size_t pitch = 0;
  CUdeviceptr ring[kFramesInRing] = {};
  std::uint64_t frames = 0;
  Clock::time_point first_frame;
};

int CUDAAPI on_sequence(void* user, CUVIDEOFORMAT* format) {
  auto& s = *static_cast<Session*>(user);
  const unsigned surfaces = format->min_num_decode_surfaces + kSpareSurfaces;
  if (s.decoder) return static_cast<int>(surfaces);
  s.width = static_cast<unsigned>(format->display_area.right - format->display_area.left);
  s.height = static_cast<unsigned>(format->display_area.bottom - format->display_area.top);
  CUVIDDECODECREATEINFO info{};
  info.CodecType = format->codec;
  info.ChromaFormat = format->chroma_format;
  info.OutputFormat = cudaVideoSurfaceFormat_NV12;
  info.ulCreationFlags = cudaVideoCreate_PreferCUVID;
  info.ulNumDecodeSurfaces = surfaces;
  info.ulNumOutputSurfaces = 2;
  info.ulWidth = info.ulMaxWidth = format->coded_width;
  info.ulHeight = info.ulMaxHeight = format->coded_height;
  info.display_area.left = static_cast<short>(format->display_area.left);
  info.display_area.top = static_cast<short>(format->display_area.top);
  info.display_area.right = static_cast<short>(format->display_area.right);
  info.display_area.bottom = static_cast<short>(format->display_area.bottom);
  info.ulTargetWidth = s.width;
  info.ulTargetHeight = s.height;
  MUST(cuvid->cuvidCreateDecoder(&s.decoder, &info));
  s.pitch = (s.width + 255) / 256 * 256;
  for (CUdeviceptr& frame : s.ring) MUST(cu->cuMemAlloc(&frame, s.pitch * s.height * 3 / 2));
  return static_cast<int>(surfaces);
}

int CUDAAPI on_decode(void* user, CUVIDPICPARAMS* picture) {
  MUST(cuvid->cuvidDecodePicture(static_cast<Session*>(user)->decoder, picture));
  return 1;
}

int CUDAAPI on_display(void* user, CUVIDPARSERDISPINFO* picture) {
  if (!picture) return 1;
  auto& s = *static_cast<Session*>(user);
  CUVIDPROCPARAMS params{};
  params.progressive_frame = picture->progressive_frame;
  params.second_field = picture->repeat_first_field + 1;
  params.top_field_first = picture->top_field_first;
  params.unpaired_field = picture->repeat_first_field < 0;
  params.output_stream = s.stream;
  unsigned long long from = 0;
  unsigned from_pitch = 0;
  MUST(cuvid->cuvidMapVideoFrame64(s.decoder, picture->picture_index, &from, &from_pitch, &params));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = from_pitch;
  copy.dstDevice = s.ring[s.frames % kFramesInRing];
  copy.dstPitch = s.pitch;
  copy.WidthInBytes = s.width;
  copy.Height = s.height * 3 / 2;
  MUST(cu->cuMemcpy2DAsync(&copy, s.stream));
  MUST(cuvid->cuvidUnmapVideoFrame64(s.decoder, from));
  if (s.frames++ == 0) s.first_frame = Clock::now();
  return 1;
}

void open(Session& s) {
  MUST(cu->cuCtxPushCurrent(s.context));
  MUST(cu->cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
  CUVIDPARSERPARAMS params{};
  params.CodecType = cudaVideoCodec_H264;
  params.ulMaxNumDecodeSurfaces = 1;
  params.ulMaxDisplayDelay = display_delay;
  params.pUserData = &s;
  params.pfnSequenceCallback = on_sequence;
  params.pfnDecodePicture = on_decode;
  params.pfnDisplayPicture = on_display;
  MUST(cuvid->cuvidCreateVideoParser(&s.parser, &params));
}

void feed(Session& s, const Packets& packets, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    for (const std::vector<std::uint8_t>& bytes : packets) {
      CUVIDSOURCEDATAPACKET data{};
      data.flags = CUVID_PKT_TIMESTAMP | CUVID_PKT_ENDOFPICTURE;
      data.payload_size = static_cast<decltype(data.payload_size)>(bytes.size());
      data.payload = bytes.data();
      MUST(cuvid->cuvidParseVideoData(s.parser, &data));
    }
  }
  CUVIDSOURCEDATAPACKET end{};
  end.flags = CUVID_PKT_ENDOFSTREAM;
  MUST(cuvid->cuvidParseVideoData(s.parser, &end));
  MUST(cu->cuStreamSynchronize(s.stream));
}

void close(Session& s) {
  MUST(cuvid->cuvidDestroyVideoParser(s.parser));
  if (s.decoder) MUST(cuvid->cuvidDestroyDecoder(s.decoder));
  for (CUdeviceptr frame : s.ring) {
    if (frame) MUST(cu->cuMemFree(frame));
  }
  MUST(cu->cuStreamDestroy(s.stream));
  MUST(cu->cuCtxPopCurrent(&s.context));
}

struct Options {
  int passes = 5;
  int sessions = 1;
  const char* path = nullptr;
};

Options parse_options(int argc, char** argv) {
  Options options;
  constexpr const char* kOptions = "n:s:d:";
  for (int option = getopt(argc, argv, kOptions); option != -1;
       option = getopt(argc, argv, kOptions)) {
    if (option == 'n') options.passes = std::max(1, std::atoi(optarg));
    if (option == 'd') display_delay = static_cast<unsigned>(std::max(0, std::atoi(optarg)));
    if (option == 's') options.sessions = std::max(1, std::atoi(optarg));
    if (option == '?') std::exit(2);
  }
  if (optind + 1 != argc)
    die("usage: bare_nvcuvid_loop [-n PASSES] [-s SESSIONS] [-d DISPLAY_DELAY] FILE");
  options.path = argv[optind];
  return options;
}

// Rises to the number of sessions; the last to arrive starts the clock for all.
struct Gate {
  explicit Gate(int count) : missing(count) {}
  void arrive() {
    if (--missing == 0) missing.notify_all();
    for (int left = missing; left != 0; left = missing) missing.wait(left);
  }
  std::atomic<int> missing;
};

// The first pass makes decoder and frames and warms everything up; the others are measured.
void run_session(CUcontext context, const Packets& packets, int passes, Gate& warm, Gate& done,
                 Session& s) {
  s.context = context;
  open(s);
  feed(s, packets, 1);
  warm.arrive();
  feed(s, packets, passes);
  done.arrive();
  close(s);
}

CUcontext open_device() {
  const auto driver = Driver::load();
  if (!driver) die(driver.status().message().c_str());
  const auto decoder = CuvidDriver::load();
  if (!decoder) die(decoder.status().message().c_str());
  cu = *driver;
  cuvid = *decoder;
  CUdevice device = 0;
  CUcontext context = nullptr;
  MUST(cu->cuDeviceGet(&device, 0));
  MUST(cu->cuDevicePrimaryCtxRetain(&context, device));
  return context;  // kept until the process ends
}

void report(const std::vector<Session>& sessions, int passes, Clock::time_point start, double wall,
            double cpu) {
  std::uint64_t frames = 0;
  for (const Session& s : sessions) frames += s.frames;
  if (frames == 0) die("nothing was decoded");
  const auto measured_passes = static_cast<std::uint64_t>(passes);
  const auto measured = static_cast<double>(frames * measured_passes / (measured_passes + 1));
  const double startup = std::chrono::duration<double>(sessions[0].first_frame - start).count();
  std::printf(
      "%ux%u: %.1f fps in %zu session(s), start-up %.3f s, CPU %.3f ms/frame (%.0f frames in %.3f "
      "s)\n",
      sessions[0].width, sessions[0].height, measured / wall, sessions.size(), startup,
      cpu * 1e3 / measured, measured, wall);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  const Packets packets = read_packets(options.path);
  if (packets.empty()) die("the file has no packets");

  const Clock::time_point start = Clock::now();
  const CUcontext context = open_device();
  std::vector<Session> sessions(static_cast<std::size_t>(options.sessions));
  std::vector<std::thread> threads;
  Gate warm(options.sessions + 1);
  Gate done(options.sessions + 1);
  for (Session& s : sessions) {
    threads.emplace_back([&] { run_session(context, packets, options.passes, warm, done, s); });
  }
  warm.arrive();
  const Clock::time_point steady = Clock::now();
  const double cpu_before = cpu_seconds();
  done.arrive();
  const double wall = seconds_since(steady);
  const double cpu = cpu_seconds() - cpu_before;
  for (std::thread& thread : threads) thread.join();
  report(sessions, options.passes, start, wall, cpu);
  return 0;
}
