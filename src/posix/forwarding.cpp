#include "posix/forwarding.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/lent_streams.hpp"
#include "posix/own_thread.hpp"
#include "posix/signals.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId forwarding_handler = fabric::max_handlers - 6;

std::atomic<Forwarding*> running_forwarding{nullptr};

}  // namespace

Forwarding* forwarding_now() noexcept {
  Forwarding* const running = running_forwarding.load(std::memory_order_acquire);
  const bool is_here = running != nullptr && shared_program()->is_this_process() && !is_in_handler();
  return is_here ? running : nullptr;
}

void start_forwarding(SharedProgram& program) {
  if (program.fabric().size() == 1) return;
  running_forwarding.store(new Forwarding(program, forwarding_handler), std::memory_order_release);
  lent_streams.rank = program.rank();
  lent_streams.can_lend = true;
}

Forwarding::Forwarding(SharedProgram& program, fabric::HandlerId handler)
    : program_(program), handler_(handler) {
  program_.fabric().set_handler(handler_, &Forwarding::arrived, this);
}

// ---- At the rank that asks

Returned Forwarding::ask(fabric::Rank owner, const Forwarded& call, ForwardedBytes& bytes) noexcept {
  std::optional<KeptErrno> kept(std::in_place);
  Line& line = take_line(owner);
  send(owner, {.kind = Kind::call, .line = line.number, .bytes = bytes.size(), .call = call, .returned = {}},
       bytes);
  fabric::Fabric& fabric = program_.fabric();
  const auto is_over = [&] { return line.is_answered.load() || fabric.lost_ranks() != 0; };
  static_cast<void>(fabric.wait_until(is_over, no_deadline));
  if (!line.is_answered.load()) program_.fail("the rank of a file that is being used is gone");
  const Returned returned = line.returned;
  bytes = std::move(line.bytes);
  put_back(line, call.call, returned);
  kept.reset();
  if (returned.error != 0) errno = returned.error;
  return returned;
}

/// Its own, if it has a lock there.
Forwarding::Line& Forwarding::take_line(fabric::Rank owner) {
  const SignalSection section;
  const std::lock_guard lock(lock_);
  const pthread_t self = ::pthread_self();
  Line* free = nullptr;
  for (const auto& line : lines_) {
    if (line->owner == owner && line->user == self) return *line;
    if (line->owner == owner && line->user == 0) free = line.get();
  }
  if (free == nullptr) {
    lines_.push_back(std::make_unique<Line>());
    free = lines_.back().get();
    free->owner = owner;
    free->number = static_cast<std::uint32_t>(lines_.size() - 1);
  }
  free->user = self;
  return *free;
}

void Forwarding::put_back(Line& line, ForwardedCall call, const Returned& returned) noexcept {
  const SignalSection section;
  const std::lock_guard lock(lock_);
  line.is_answered.store(false);
  line.bytes.clear();
  if (has_locked(call, returned)) ++line.locks;
  if (call == ForwardedCall::unlock && line.locks != 0) --line.locks;
  if (line.locks == 0) line.user = 0;
}

void Forwarding::answered(const Head& head, const std::byte* bytes, std::size_t count) noexcept {
  {
    const std::lock_guard lock(lock_);
    if (head.line >= lines_.size()) return;
    Line& line = *lines_[head.line];
    line.bytes.insert(line.bytes.end(), bytes, bytes + count);
    if (line.bytes.size() < head.bytes) return;
    line.returned = head.returned;
    line.is_answered.store(true);
  }
  program_.fabric().notify();
}

// ---- At the rank that is asked

void Forwarding::asked(fabric::Rank by, const Head& head, const std::byte* bytes,
                       std::size_t count) noexcept {
  std::unique_ptr<Served>& served = served_[{by, head.line}];
  if (served == nullptr) {
    served = std::make_unique<Served>(*this, by, head.line);
    if (const int error = start_own_thread(&Forwarding::serve, served.get()); error != 0) {
      served.reset();
      return send(by,
                  {.kind = Kind::answer,
                   .line = head.line,
                   .bytes = 0,
                   .call = head.call,
                   .returned = {.error = error, .is_refused = true}},
                  {});
    }
  }
  served->bytes.insert(served->bytes.end(), bytes, bytes + count);
  if (served->bytes.size() < head.bytes) return;
  served->call = head.call;
  served->is_asked.store(1);
  program_.fabric().wake_sleepers(served->is_asked);
}

void* Forwarding::serve(void* served) noexcept {
  auto& mine = *static_cast<Served*>(served);
  fabric::Fabric& fabric = mine.self.program_.fabric();
  for (;;) {
    while (mine.is_asked.load() == 0) fabric.sleep_while(mine.is_asked, 0, no_deadline);
    mine.is_asked.store(0);
    const Forwarded call = mine.call;
    ForwardedBytes bytes = std::move(mine.bytes);
    mine.bytes.clear();  // before the answer, after which the next call may come
    const Returned returned = serve_call(mine.by, call, bytes);
    mine.self.send(
        mine.by,
        {.kind = Kind::answer, .line = mine.line, .bytes = bytes.size(), .call = call, .returned = returned},
        bytes);
  }
}

// ---- Messages

void Forwarding::send(fabric::Rank to, Head head, const ForwardedBytes& bytes) noexcept {
  constexpr std::size_t part_most = fabric::max_message_bytes - sizeof(Head);
  alignas(Head) std::array<std::byte, fabric::max_message_bytes> message;
  std::memcpy(message.data(), &head, sizeof head);
  std::size_t sent = 0;
  do {
    const std::size_t part = std::min(bytes.size() - sent, part_most);
    if (part != 0) std::memcpy(message.data() + sizeof head, bytes.data() + sent, part);
    static_cast<void>(program_.fabric().send(to, handler_, message.data(), sizeof head + part));
    sent += part;
  } while (sent < bytes.size());
}

void Forwarding::arrived(void* self, fabric::Rank source, const std::byte* payload,
                         std::size_t bytes) noexcept {
  auto& here = *static_cast<Forwarding*>(self);
  Head head{};
  if (bytes < sizeof head) return;
  std::memcpy(&head, payload, sizeof head);
  if (head.bytes > forwarded_bytes_most) return;
  if (head.kind == Kind::call)
    here.asked(source, head, payload + sizeof head, bytes - sizeof head);
  else
    here.answered(head, payload + sizeof head, bytes - sizeof head);
}

}  // namespace craton::posix
