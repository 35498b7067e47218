// open_memstream: the C library would grow the text in its own memory.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "posix/allocation.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"
#include "posix/streams.hpp"

namespace {

struct MemoryStream {
  char** text;
  std::size_t* bytes;
  char* memory;
  std::size_t room;
  std::size_t length;
  std::size_t position;

  bool reserve(std::size_t wanted) noexcept {
    if (wanted <= room) return true;
    const std::size_t larger = std::max(wanted, 2 * room);
    auto* const moved = static_cast<char*>(craton_program_realloc(memory, larger));
    if (moved == nullptr) return false;
    std::memset(moved + room, 0, larger - room);
    memory = moved;
    room = larger;
    return true;
  }
  void tell() const noexcept {
    *text = memory;
    *bytes = position;
  }
};

ssize_t write_memory(void* cookie, const char* from, std::size_t bytes) {
  auto& stream = *static_cast<MemoryStream*>(cookie);
  if (!stream.reserve(stream.position + bytes + 1)) return 0;
  std::memcpy(stream.memory + stream.position, from, bytes);
  stream.position += bytes;
  stream.length = std::max(stream.length, stream.position);
  stream.memory[stream.length] = '\0';
  stream.tell();
  return static_cast<ssize_t>(bytes);
}

int seek_memory(void* cookie, off64_t* offset, int from) {
  auto& stream = *static_cast<MemoryStream*>(cookie);
  const off64_t begin = from == SEEK_SET   ? 0
                        : from == SEEK_CUR ? static_cast<off64_t>(stream.position)
                                           : static_cast<off64_t>(stream.length);
  const off64_t wanted = begin + *offset;
  if (wanted < 0 || !stream.reserve(static_cast<std::size_t>(wanted) + 1)) return -1;
  stream.position = static_cast<std::size_t>(wanted);
  *offset = wanted;
  stream.tell();
  return 0;
}

int close_memory(void* cookie) {
  ::free(cookie);
  return 0;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] FILE* open_memstream(char** text, std::size_t* bytes) {
  if (craton::posix::shared_program() == nullptr) return CRATON_REAL(open_memstream)(text, bytes);
  constexpr std::size_t first_room = 128;
  void* const memory = ::malloc(sizeof(MemoryStream));
  if (memory == nullptr) return nullptr;
  auto* const state = new (memory)
      MemoryStream{.text = text, .bytes = bytes, .memory = nullptr, .room = 0, .length = 0, .position = 0};
  if (!state->reserve(first_room)) {
    ::free(memory);
    return nullptr;
  }
  state->tell();
  const craton::posix::OpeningStream opening;
  return craton::posix::adopt_stream(CRATON_REAL(fopencookie)(
      state, "w", {.read = nullptr, .write = &write_memory, .seek = &seek_memory, .close = &close_memory}));
}

}  // extern "C"
