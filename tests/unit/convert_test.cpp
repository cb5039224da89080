// SPDX-License-Identifier: LGPL-2.1-or-later
// The conversion kernels against the double-precision reference: run directly, thread by thread, on
// the CPU, and through the driver's launch on whatever device there is.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <tuple>

#include "convert/color_converter.h"
#include "convert/pixel_math.cuh"
#include "tests/support/color_reference.h"
#include "tests/support/frames.h"

namespace cudaframe::convert {
namespace {

using memory::FrameLayout;
using memory::FrameView;
using test::must;

constexpr std::uint8_t kGuard = 0xA5;

/// A picture in ordinary memory with guard bytes around and between its rows; its "device address"
/// is the host's.
class GuardedPicture {
 public:
  GuardedPicture(PixelFormat format, int width, int height, std::size_t extra_pitch) {
    FrameLayout shape = must(memory::make_device_layout(format, width, height));
    std::vector<std::size_t> offsets, pitches;
    std::size_t end = kMargin;
    for (int i = 0; i < shape.plane_count; ++i) {
      const memory::PlaneLayout& plane = shape.planes[static_cast<std::size_t>(i)];
      offsets.push_back(end);
      pitches.push_back(plane.row_bytes + extra_pitch);
      end += plane.rows * pitches.back() + kMargin;
    }
    bytes_.assign(end + 64, kGuard);
    base_ = bytes_.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64) % 64;
    layout_ = must(memory::make_layout(format, width, height, offsets, pitches, end));
  }
  FrameView view() const {
    return {.layout = layout_, .device = reinterpret_cast<CUdeviceptr>(base_)};
  }
  std::uint8_t* row(int plane, int y) const {
    const memory::PlaneLayout& p = layout_.planes[static_cast<std::size_t>(plane)];
    return base_ + p.offset + static_cast<std::size_t>(y) * p.pitch;
  }
  const FrameLayout& layout() const { return layout_; }

  template <typename Generate>
  void fill(Generate generate) {
    for_each_sample([&](std::uint8_t& sample) { sample = generate(); });
  }
  /// Whether everything outside of the rows still has the guard's value.
  bool guards_intact() {
    std::vector<std::uint8_t> saved = bytes_;
    for_each_sample([](std::uint8_t& sample) { sample = kGuard; });
    const bool intact =
        std::all_of(bytes_.begin(), bytes_.end(), [](std::uint8_t byte) { return byte == kGuard; });
    std::copy(saved.begin(), saved.end(), bytes_.begin());
    return intact;
  }

 private:
  static constexpr std::size_t kMargin = 96;

  template <typename Function>
  void for_each_sample(Function function) {
    for (int i = 0; i < layout_.plane_count; ++i) {
      const memory::PlaneLayout& plane = layout_.planes[static_cast<std::size_t>(i)];
      for (std::size_t y = 0; y < plane.rows; ++y) {
        for (std::size_t x = 0; x < plane.row_bytes; ++x) {
          function(row(i, static_cast<int>(y))[x]);
        }
      }
    }
  }

  std::vector<std::uint8_t> bytes_;
  std::uint8_t* base_;
  FrameLayout layout_;
};

void run_on_cpu(const ConvertLaunch& launch) {
  const std::string name = launch.kernel;
  for (unsigned y = 0; y < launch.grid_y * launch.block_y; ++y) {
    for (unsigned x = 0; x < launch.grid_x * launch.block_x; ++x) {
      const int tx = static_cast<int>(x), ty = static_cast<int>(y);
      if (name == kNv12ToPacked3) nv12_thread<PackedWriter<3>>(launch.params, tx, ty);
      if (name == kNv12ToPacked4) nv12_thread<PackedWriter<4>>(launch.params, tx, ty);
      if (name == kNv12ToPlanar) nv12_thread<PlanarWriter>(launch.params, tx, ty);
      if (name == kRgbToRgb) rgb_thread(launch.params, tx, ty);
    }
  }
}

/// Where R, G, B, A stand, written down once more, independently of the product's table.
struct Where {
  int plane, byte, step;
};
Where where(PixelFormat format, int channel) {
  switch (format) {
    case PixelFormat::rgb:
      return {0, channel, 3};
    case PixelFormat::bgr:
      return {0, 2 - channel, 3};
    case PixelFormat::rgba:
    case PixelFormat::rgbx:
      return {0, channel, 4};
    case PixelFormat::bgra:
    case PixelFormat::bgrx:
      return {0, channel == 3 ? 3 : 2 - channel, 4};
    case PixelFormat::rgbp:
      return {channel, 0, 1};
    case PixelFormat::gbr:
      return {channel == 0 ? 2 : channel - 1, 0, 1};
    default:
      return {-1, 0, 0};
  }
}
bool has_fourth(PixelFormat format) {
  return where(format, 0).step == 4;
}
bool has_alpha(PixelFormat format) {
  return format == PixelFormat::rgba || format == PixelFormat::bgra;
}
std::uint8_t channel_at(const GuardedPicture& picture, int x, int y, int channel) {
  const Where w = where(picture.layout().format, channel);
  return picture.row(w.plane, y)[x * w.step + w.byte];
}

constexpr PixelFormat kRgbFormats[] = {PixelFormat::rgb,  PixelFormat::bgr,  PixelFormat::rgba,
                                       PixelFormat::bgra, PixelFormat::rgbx, PixelFormat::bgrx,
                                       PixelFormat::rgbp, PixelFormat::gbr};

struct Errors {
  double largest = 0.0;
  double sum = 0.0;
  std::size_t count = 0;
  double mean() const { return count ? sum / static_cast<double>(count) : 0.0; }
};

Errors compare(const GuardedPicture& from, const GuardedPicture& to,
               const ConvertOptions& options) {
  const FrameLayout& layout = from.layout();
  const std::vector<double> expected =
      test::reference_rgb({layout.width, layout.height, from.row(0, 0), layout.planes[0].pitch,
                           from.row(1, 0), layout.planes[1].pitch},
                          options.color, options.chroma == ChromaMode::linear);
  Errors errors;
  std::size_t i = 0;
  for (int y = 0; y < layout.height; ++y) {
    for (int x = 0; x < layout.width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const double error = std::abs(expected[i++] - channel_at(to, x, y, channel));
        errors.largest = std::max(errors.largest, error);
        errors.sum += error;
        ++errors.count;
      }
      if (has_fourth(to.layout().format)) {
        EXPECT_EQ(channel_at(to, x, y, 3), 255) << x << ',' << y;
      }
    }
  }
  return errors;
}

// Rounding alone makes up to 0.5; a float's rounding next to a half may make it a hair more.
constexpr double kLargestError = 0.51;
constexpr double kMeanError = 0.3;

using ColorCase = std::tuple<PixelFormat, ColorMatrix, ColorRange, ChromaSiting, ChromaSiting>;

class ConvertNv12Test : public testing::TestWithParam<ColorCase> {
 protected:
  static ConvertOptions options(ChromaMode chroma = ChromaMode::linear) {
    const auto [format, matrix, range, horizontal, vertical] = GetParam();
    return {
        .color = {.matrix = matrix, .range = range, .horizontal = horizontal, .vertical = vertical},
        .chroma = chroma};
  }
  static PixelFormat format() { return std::get<0>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(
    All, ConvertNv12Test,
    testing::Combine(testing::ValuesIn(kRgbFormats),
                     testing::Values(ColorMatrix::bt601, ColorMatrix::bt709,
                                     ColorMatrix::bt2020_ncl),
                     testing::Values(ColorRange::limited, ColorRange::full),
                     testing::Values(ChromaSiting::cosited, ChromaSiting::centered),
                     testing::Values(ChromaSiting::cosited, ChromaSiting::centered)));

TEST_P(ConvertNv12Test, RandomPicturesOfManySizes) {
  std::mt19937 random(1);
  for (const auto& [width, height, extra] :
       {std::tuple{1, 1, 0u}, std::tuple{2, 2, 1u}, std::tuple{3, 5, 0u}, std::tuple{8, 2, 8u},
        std::tuple{7, 3, 9u}, std::tuple{64, 16, 0u}, std::tuple{33, 18, 31u},
        std::tuple{96, 9, 32u}, std::tuple{257, 131, 3u}}) {
    for (const ChromaMode chroma : {ChromaMode::linear, ChromaMode::nearest}) {
      GuardedPicture from(PixelFormat::nv12, width, height, extra);
      GuardedPicture to(format(), width, height, extra);
      from.fill([&] { return static_cast<std::uint8_t>(random()); });
      run_on_cpu(must(ColorConverter::plan(to.view(), from.view(), options(chroma))));
      const Errors errors = compare(from, to, options(chroma));
      EXPECT_LE(errors.largest, kLargestError) << width << 'x' << height;
      EXPECT_TRUE(to.guards_intact()) << width << 'x' << height << " wrote outside of the picture";
    }
  }
}

TEST_P(ConvertNv12Test, ExtremeValues) {
  for (const int luma : {0, 1, 16, 128, 235, 254, 255}) {
    for (const int cb : {0, 16, 127, 128, 240, 255}) {
      std::mt19937 random(static_cast<unsigned>(luma * 256 + cb));
      GuardedPicture from(PixelFormat::nv12, 16, 4, 0);
      GuardedPicture to(format(), 16, 4, 0);
      from.fill([&] { return static_cast<std::uint8_t>(random() % 2 ? luma : cb); });
      run_on_cpu(must(ColorConverter::plan(to.view(), from.view(), options())));
      EXPECT_LE(compare(from, to, options()).largest, kLargestError);
    }
  }
}

TEST_P(ConvertNv12Test, MeanErrorIsSmall) {
  std::mt19937 random(7);
  GuardedPicture from(PixelFormat::nv12, 320, 120, 0);
  GuardedPicture to(format(), 320, 120, 0);
  from.fill([&] { return static_cast<std::uint8_t>(64 + random() % 128); });
  run_on_cpu(must(ColorConverter::plan(to.view(), from.view(), options())));
  EXPECT_LT(compare(from, to, options()).mean(), kMeanError);
}

// Negative control: the tolerance tells one siting from the other.
TEST_P(ConvertNv12Test, AnotherSitingIsSeen) {
  std::mt19937 random(3);
  GuardedPicture from(PixelFormat::nv12, 64, 32, 0);
  GuardedPicture to(format(), 64, 32, 0);
  from.fill([&] { return static_cast<std::uint8_t>(random()); });
  ConvertOptions other = options();
  other.color.horizontal = other.color.horizontal == ChromaSiting::cosited ? ChromaSiting::centered
                                                                           : ChromaSiting::cosited;
  run_on_cpu(must(ColorConverter::plan(to.view(), from.view(), other)));
  EXPECT_GT(compare(from, to, options()).largest, 1.0);
}

// The tutorials' well-known numbers for 8-bit limited BT.709.
TEST(ColorMatrixTest, Bt709Limited) {
  const Result<ConvertLaunch> launch = [] {
    static GuardedPicture from(PixelFormat::nv12, 2, 2, 0);
    static GuardedPicture to(PixelFormat::rgb, 2, 2, 0);
    return ColorConverter::plan(to.view(), from.view(), {});
  }();
  ASSERT_TRUE(launch.ok());
  const auto& m = launch->params.matrix;
  EXPECT_NEAR(m[0][0], 1.164384, 1e-6);
  EXPECT_NEAR(m[0][2] * 16, 1.792741, 1e-6);
  EXPECT_NEAR(m[1][1] * 16, -0.213249, 1e-6);
  EXPECT_NEAR(m[1][2] * 16, -0.532909, 1e-6);
  EXPECT_NEAR(m[2][1] * 16, 2.112402, 1e-6);
}

class ConvertRgbTest : public testing::TestWithParam<std::tuple<PixelFormat, PixelFormat>> {};
INSTANTIATE_TEST_SUITE_P(All, ConvertRgbTest,
                         testing::Combine(testing::ValuesIn(kRgbFormats),
                                          testing::ValuesIn(kRgbFormats)));

TEST_P(ConvertRgbTest, ChannelsMoveUnchanged) {
  const auto [source, target] = GetParam();
  std::mt19937 random(1);
  for (const auto& [width, height, extra] :
       {std::tuple{1, 1, 0u}, std::tuple{13, 7, 5u}, std::tuple{64, 3, 0u}}) {
    GuardedPicture from(source, width, height, extra);
    GuardedPicture to(target, width, height, extra);
    from.fill([&] { return static_cast<std::uint8_t>(random()); });
    run_on_cpu(must(ColorConverter::plan(to.view(), from.view(), {})));
    EXPECT_TRUE(to.guards_intact());
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(channel_at(to, x, y, c), channel_at(from, x, y, c)) << x << ',' << y;
        }
        if (!has_fourth(target)) continue;
        const int alpha = has_alpha(source) && has_alpha(target) ? channel_at(from, x, y, 3) : 255;
        ASSERT_EQ(channel_at(to, x, y, 3), alpha);
      }
    }
  }
}

TEST(ConvertPlanTest, RefusesWhatItCannotDo) {
  GuardedPicture nv12(PixelFormat::nv12, 16, 16, 0);
  GuardedPicture rgb(PixelFormat::rgb, 16, 16, 0);
  GuardedPicture small(PixelFormat::rgb, 8, 16, 0);
  EXPECT_EQ(ColorConverter::plan(nv12.view(), rgb.view(), {}).status().code(),
            StatusCode::not_supported);
  EXPECT_EQ(ColorConverter::plan(small.view(), nv12.view(), {}).status().code(),
            StatusCode::invalid_argument);
  FrameView host = nv12.view();
  host.device = 0;
  EXPECT_EQ(ColorConverter::plan(rgb.view(), host, {}).status().code(),
            StatusCode::invalid_argument);
}

// The same code through the driver: what is launched is what was planned, on device frames.
TEST(ConvertDeviceTest, LaunchEqualsTheTwin) {
  cuda::Context* context = must(cuda::Context::for_device(0));
  const ColorConverter* converter = must(ColorConverter::for_context(*context));
  const cuda::StreamPtr stream = must(cuda::Stream::create(*context));
  const auto policy = memory::MemoryPolicy::create(memory::ReusePolicy::record_stream, *context,
                                                   memory::MemoryKind::device, {});
  std::mt19937 random(5);
  for (const PixelFormat format : kRgbFormats) {
    for (const auto& [width, height] :
         {std::pair{1, 1}, std::pair{17, 9}, std::pair{64, 32}, std::pair{1283, 721}}) {
      const FrameLayout source = must(memory::make_device_layout(PixelFormat::nv12, width, height));
      const FrameLayout target = must(memory::make_device_layout(format, width, height));
      const memory::FramePtr from = must(policy->allocate(source, stream));
      const memory::FramePtr to = must(policy->allocate(target, stream));
      test::HostBuffer input(*context, source, 0), output(*context, target, 0),
          expected(*context, target, 0);
      std::generate_n(input.bytes(), source.bytes,
                      [&] { return static_cast<std::byte>(random()); });
      test::queue_write(*from, input, stream);
      ASSERT_TRUE(
          converter->convert(FrameView::of(*to), FrameView::of(*from), {}, stream->handle()).ok());
      test::queue_read(*to, output, stream);
      test::synchronize(stream);
      run_on_cpu(must(ColorConverter::plan(
          {.layout = target, .device = reinterpret_cast<CUdeviceptr>(expected.bytes())},
          {.layout = source, .device = reinterpret_cast<CUdeviceptr>(input.bytes())}, {})));
      int largest = 0;
      for (int plane = 0; plane < target.plane_count; ++plane) {
        const memory::PlaneLayout& p = target.planes[static_cast<std::size_t>(plane)];
        for (std::size_t y = 0; y < p.rows; ++y) {
          for (std::size_t x = 0; x < p.row_bytes; ++x) {
            const std::size_t at = p.offset + y * p.pitch + x;
            largest = std::max(largest, std::abs(static_cast<int>(output.bytes()[at]) -
                                                 static_cast<int>(expected.bytes()[at])));
          }
        }
      }
      // A GPU fuses multiply and add: a value next to a half may round the other way.
      EXPECT_LE(largest, 1) << width << 'x' << height;
    }
  }
}

}  // namespace
}  // namespace cudaframe::convert
