// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated NVCUVID parser: cuts, decodes through libavcodec, and calls back in decode and
// display order.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "cuvid_caps.h"
#include "software_decoder.h"
#include "unit_splitter.h"

namespace cudaframe::sim {

/// Thread-bound, as the real one is. Callbacks run inside parse().
///
/// What callbacks answer is taken as measured on the real one: cuvidParseVideoData succeeds
/// whatever they say. A sequence that is refused isn't decoded or shown, until the next sequence
/// callback; a picture whose decode callback failed isn't shown; what display callbacks say has no
/// effect.
class Parser {
 public:
  static CUresult create(const CUVIDPARSERPARAMS& params, std::shared_ptr<Parser>* made);

  CUresult parse(const CUVIDSOURCEDATAPACKET& packet);

 private:
  Parser(const CUVIDPARSERPARAMS& params, const CodecInfo& codec);
  void parse_unit(const uint8_t* data, size_t size, int64_t timestamp);
  void announce_started();
  void announce_pending();
  void start_picture(const PicturePtr& picture);
  void call_sequence(const CUVIDEOFORMAT& format);
  /// What the callback said.
  bool call_decode(const PicturePtr& picture);
  void queue_outputs();
  void display_down_to(size_t count);
  void display_first();
  void end_of_stream(bool notify);

  int take_index();
  int find_free_index();
  size_t display_delay() const;
  int64_t display_time(const Output& output);

  CUVIDPARSERPARAMS params_;
  const CodecInfo& codec_;
  std::unique_ptr<SoftwareDecoder> decoder_;
  UnitSplitter splitter_;

  CUVIDEOFORMAT format_ = {};
  bool has_format_ = false;
  bool is_refused_ = false;  ///< the sequence callback said no
  bool has_failed_ = false;  ///< ran out of surfaces in this call
  /// By picture index: who has it, or had it last.
  std::vector<PicturePtr> surfaces_;
  size_t next_index_ = 0;
  /// The first field of a frame: its decode callback comes when the picture is complete.
  PicturePtr pending_;
  std::deque<Output> display_queue_;
  std::multiset<int64_t> pending_times_;  ///< of packets whose pictures have not been shown
  int64_t next_time_ = 0;                 ///< for the next picture without a timestamp of its own
};

}  // namespace cudaframe::sim
