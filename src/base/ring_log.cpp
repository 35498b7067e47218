#include "base/ring_log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/line_writer.hpp"

namespace craton {
namespace {

constexpr std::uint64_t being_written(std::uint64_t number) {
  return 2 * number + 1;
}
constexpr std::uint64_t whole(std::uint64_t number) {
  return 2 * number + 2;
}

}  // namespace

void RingLog::write(std::initializer_list<LogPiece> pieces) noexcept {
  char text[line_bytes];
  LineWriter writer(text, sizeof text);
  for (const LogPiece& piece : pieces) {
    if (piece.is_number()) {
      writer.append_signed(piece.number());
    } else {
      writer.append(piece.text());
    }
  }

  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  Line& line = lines_[number % lines_held];
  // A writer that was held up for a whole round of the ring (or interrupted by a handler that wrote one)
  // still has the line, or has lost it to a newer one: the text of whoever comes second is dropped, never
  // mixed.
  std::uint64_t seen = line.sequence.load(std::memory_order_relaxed);
  if (seen % 2 == 1 || seen > being_written(number) ||
      !line.sequence.compare_exchange_strong(seen, being_written(number), std::memory_order_acq_rel)) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // The release order of every store keeps them behind the odd sequence number for a reader that sees any of
  // them.
  line.time_ns.store(SteadyClock().now_ns(), std::memory_order_release);
  line.length.store(writer.text().size(), std::memory_order_release);
  for (std::size_t offset = 0; offset < writer.text().size(); offset += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text + offset, std::min(sizeof word, writer.text().size() - offset));
    line.words[offset / sizeof word].store(word, std::memory_order_release);
  }
  line.sequence.store(whole(number), std::memory_order_release);
}

std::size_t RingLog::dump(int fd) const noexcept {
  const int errno_before = errno;  // a signal handler must leave it alone
  const std::uint64_t end = next_.load(std::memory_order_acquire);
  std::size_t lines_written = 0;
  for (std::uint64_t number = end > lines_held ? end - lines_held : 0; number < end; ++number) {
    const Line& line = lines_[number % lines_held];
    if (line.sequence.load(std::memory_order_acquire) != whole(number)) continue;
    const TimeNs time_ns = line.time_ns.load(std::memory_order_acquire);
    const std::size_t length = std::min(line.length.load(std::memory_order_acquire), line_bytes);
    std::uint64_t text[line_words];
    for (std::size_t i = 0; i * sizeof text[0] < length; ++i) {
      text[i] = line.words[i].load(std::memory_order_acquire);
    }
    if (line.sequence.load(std::memory_order_relaxed) != whole(number)) continue;

    char buffer[line_bytes + 48];
    LineWriter writer(buffer, sizeof buffer);
    writer.append("[");
    writer.append_unsigned(static_cast<std::uint64_t>(time_ns) / 1'000'000'000);
    writer.append(".");
    writer.append_unsigned(static_cast<std::uint64_t>(time_ns) % 1'000'000'000, 10, 9);
    writer.append("] ");
    writer.append({reinterpret_cast<const char*>(text), length});
    writer.append("\n");
    if (!write_fully(fd, writer.text())) break;
    ++lines_written;
  }
  errno = errno_before;
  return lines_written;
}

namespace {
constinit RingLog log_of_this_process;
}  // namespace

RingLog& process_log() noexcept {
  return log_of_this_process;
}

}  // namespace craton
