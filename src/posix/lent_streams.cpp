#include "posix/lent_streams.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace craton::posix {

namespace {

/// A usual buffer is lent as a whole.
constexpr std::ptrdiff_t lent_most = 16 * kibi;

std::atomic<LoanNumber> loans_made{0};
std::atomic<std::uint32_t> loans_out{0};

std::uint64_t recall(FILE* stream, fabric::Rank from, LoanNumber number) noexcept {
  ForwardedBytes none;
  const Forwarded call{.call = ForwardedCall::recall,
                       .object = stream == stdin ? 0 : reinterpret_cast<std::uintptr_t>(stream),
                       .first = static_cast<std::int64_t>(number)};
  return static_cast<std::uint64_t>(forwarding_now()->ask(from, call, none).value);
}

/// It has its unread bytes in the one buffer that it has, to be read as bytes.
bool has_usual_buffer(const FILE* stream) noexcept {
  // _IO_UNBUFFERED, _IO_ERR_SEEN, _IO_EOF_SEEN, _IO_IN_BACKUP, _IO_CURRENTLY_PUTTING of the headers, which
  // undefine them
  constexpr int unusual = 0x2 | 0x10 | 0x20 | 0x100 | 0x800;
  return (stream->_flags & unusual) == 0 && stream->_mode <= 0 && stream->_IO_read_ptr < stream->_IO_read_end;
}

}  // namespace

constinit LentStreams lent_streams;

void end_loan(FILE* stream, fabric::Rank user, LoanBack back) noexcept {
  LentStreams::State& state = lent_streams.of(stream);
  if (state.lent.is_out() && forwarding_now() == nullptr) return;  // in a handler of a signal, or a child
  state.lent.settle(
      user, back, [stream](fabric::Rank from, LoanNumber number) { return recall(stream, from, number); },
      [&state, stream](std::uint64_t used) {
        if (stream->_IO_read_ptr != state.from || stream->_IO_read_end != state.from)
          shared_program()->fail(
              "a stream that several ranks read was read by a function of the C library that Craton does not "
              "know");
        stream->_IO_read_ptr = state.from + used;
        stream->_IO_read_end = state.end;
        loans_out.fetch_sub(1, std::memory_order_relaxed);
      });
}

void StreamUse::lend(fabric::Rank to, Returned& returned, ForwardedBytes& bytes) noexcept {
  if (stream_ == nullptr || !has_usual_buffer(stream_)) return;
  LentStreams::State& state = lent_streams.of(stream_);
  if (!state.lent.is_worth_it()) return;
  char* const from = stream_->_IO_read_ptr;
  const auto lent = static_cast<std::size_t>(std::min(stream_->_IO_read_end - from, lent_most));
  if (bytes.size() + lent > forwarded_bytes_most) return;
  const auto* const begin = reinterpret_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), begin, begin + lent);
  returned.loan = loans_made.fetch_add(1, std::memory_order_relaxed) + 1;
  returned.lent = lent;
  state.lent.lend(returned.loan, to, lent);
  state.from = from;
  state.end = std::exchange(stream_->_IO_read_end, from);
  loans_out.fetch_add(1, std::memory_order_relaxed);
}

void end_all_loans() noexcept {
  const auto end = [](FILE* stream, const LentStreams::State& state) {
    if (!state.lent.is_out() || !lock_if_soon(stream)) return;
    end_loan(stream);
    ::funlockfile(stream);
  };
  if (loans_out.load(std::memory_order_relaxed) == 0) return;
  end(stdin, lent_streams.input);
  for (std::size_t i = 0; i < lent_streams.files.size(); ++i)
    end(stream_memory().stream_at(i), lent_streams.files[i]);
}

}  // namespace craton::posix
