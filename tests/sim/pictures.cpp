// SPDX-License-Identifier: LGPL-2.1-or-later
#include "pictures.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace cudaframe::sim {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::weak_ptr<Picture>> pictures;

  static Registry& get() {
    static auto* const registry = new Registry;  // never destroyed
    return *registry;
  }
};

std::atomic<uint64_t> next_id{1};

}  // namespace

Picture::Picture() : id(next_id++) {}

Picture::~Picture() {
  Registry& registry = Registry::get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.pictures.erase(id);
}

PicturePtr make_picture() {
  auto picture = std::make_shared<Picture>();
  Registry& registry = Registry::get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.pictures[picture->id] = picture;
  return picture;
}

PicturePtr find_picture(const void* bitstream, size_t size) {
  PictureToken token;
  if (!bitstream || size != sizeof token) return nullptr;
  memcpy(&token, bitstream, sizeof token);
  if (token.magic != kTokenMagic) return nullptr;
  Registry& registry = Registry::get();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.pictures.find(token.id);
  return found == registry.pictures.end() ? nullptr : found->second.lock();
}

}  // namespace cudaframe::sim
