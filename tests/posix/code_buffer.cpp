#include "code_buffer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <stdexcept>

#include "machine.hpp"

namespace craton::posix {

LowMemory::LowMemory(std::size_t bytes) : bytes_(bytes) {
  void* const got =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (got == MAP_FAILED) throw std::runtime_error("no memory in the lowest 2 GiB");
  begin_ = reinterpret_cast<std::uintptr_t>(got);
}

LowMemory::~LowMemory() {
  ::munmap(reinterpret_cast<void*>(begin_), bytes_);
}

CodeBuffer::CodeBuffer(std::size_t bytes) : memory_(bytes), here_(memory_.begin()), exit_(here_) {
  add_value(Machine::exit_address());
  map_.name = "a test";
  map_.image = {memory_.begin(), memory_.end()};
  align(16);  // behind that address, whose bytes can look like an instruction
  map_.code.push_back({{here_, memory_.end()}, PROT_READ | PROT_EXEC});
  map_.data.push_back(map_.image);
}

void CodeBuffer::add(std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) add_value(static_cast<std::uint8_t>(byte));
}

void CodeBuffer::add(std::span<const std::uint8_t> bytes) {
  if (memory_.end() - here_ < bytes.size()) throw std::runtime_error("the test's code buffer is too small");
  std::memcpy(reinterpret_cast<void*>(here_), bytes.data(), bytes.size());
  here_ += bytes.size();
}

void CodeBuffer::align(std::size_t to) {
  while (here_ % to != 0) add({0x90});
}

void CodeBuffer::add_exit() {
  add({0xff, 0x25});  // jmp *exit(%rip)
  add_value(static_cast<std::int32_t>(exit_ - (here_ + 4)));
}

std::uintptr_t CodeBuffer::begin_function() {
  align(16);
  map_.functions.push_back({here_, here_});
  return here_;
}

void CodeBuffer::end_function() {
  map_.functions.back().end = here_;
}

CodeMap CodeBuffer::finish() {
  align(16);
  const auto bytes = memory_.bytes();
  if (::mprotect(bytes.data(), bytes.size(), PROT_READ | PROT_EXEC) != 0)
    throw std::runtime_error("cannot run the test's code");
  return map_;
}

std::string text_of(const PatchReport& report) {
  std::string text =
      fmt::format("{} functions, {} of {} bytes read, {} atomics, {} flushes, {} jumps, {} traps {}\n",
                  report.functions, report.read_bytes, report.code_bytes, report.atomics, report.flushes,
                  report.jumps, report.traps.size(), report.problem);
  for (const auto& each : report.traps) text += fmt::format("trap at {:x}: {}\n", each.address, each.why);
  for (const auto& each : report.untouched)
    text += fmt::format("untouched {:x}: {}\n", each.address, each.why);
  return text;
}

}  // namespace craton::posix
