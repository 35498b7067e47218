#include "coherence/interleaver.hpp"

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/error.hpp"
#include "coherence/block_lock.hpp"
#include "fabric/batch.hpp"
#include "fiber/coroutine.hpp"
#include "fiber/stack.hpp"

namespace craton::coherence {

namespace {
/// What a release needs, ten times over; the sanitizers' frames are larger.
constexpr std::size_t stack_bytes = std::size_t{128} * 1024;

/// Ends the use that its maker has begun.
class Use {
 public:
  explicit Use(std::atomic<bool>& in_use) noexcept : in_use_(in_use) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { in_use_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& in_use_;
};
}  // namespace

struct Interleaver::Strand {
  explicit Strand(Interleaver& owner) : all(owner), stack(stack_bytes) {}

  bool holds(const void* frame) const noexcept {
    return frame >= stack.bottom() && frame < static_cast<const std::byte*>(stack.bottom()) + stack.bytes();
  }

  Interleaver& all;
  fiber::Stack stack;
  std::optional<fiber::Coroutine> coroutine;  ///< while it has work
  FunctionRef<bool()>* condition = nullptr;   ///< what it waits for
  TimeNs deadline_ns = no_deadline;
  bool finished = false;
};

Interleaver::Interleaver(fabric::Fabric& fabric, unsigned width) : fabric_(fabric), width_(width) {}

Interleaver::~Interleaver() = default;

void Interleaver::make_strands() {
  try {
    while (strands_.size() < width_) strands_.push_back(std::make_unique<Strand>(*this));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::out_of_resources, {.asked = "cannot publish several blocks at a time",
                                              .happened = error.what(),
                                              .limit = {},
                                              .remedy = "set parallel-releases to 1"});
  }
}

void Interleaver::run(std::size_t count, FunctionRef<void(std::size_t)> action) {
  if (count < 2 || width_ < 2 || in_use_.exchange(true, std::memory_order_acquire)) {
    for (std::size_t i = 0; i < count; ++i) action(i);
    return;
  }
  const Use use(in_use_);
  make_strands();
  action_ = &action;
  count_ = count;
  next_ = 0;
  unwinding_ = false;
  const std::size_t used = std::min<std::size_t>(count, width_);
  for (std::size_t i = 0; i < used; ++i) {
    strands_[i]->finished = false;
    strands_[i]->coroutine.emplace(strands_[i]->stack, &Interleaver::main, strands_[i].get());
  }
  running_.store(true, std::memory_order_release);
  std::exception_ptr broken;
  try {
    resume_all(used);
  } catch (...) {
    // This rank itself has ended (a simulated one), so nothing that a strand waits for comes any more.
    broken = std::current_exception();
    unwinding_ = true;
    resume_all(used);
  }
  running_.store(false, std::memory_order_release);
  for (std::size_t i = 0; i < used; ++i) strands_[i]->coroutine.reset();
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  if (broken) std::rethrow_exception(broken);
  if (failure) std::rethrow_exception(failure);
}

/// Until all have finished.
void Interleaver::resume_all(std::size_t used) {
  const auto is_active = [](const auto& strand) { return !strand->finished; };
  const auto begin = strands_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(used);
  const fabric::Batch together;
  while (std::any_of(begin, end, is_active)) {
    bool resumed = false;
    for (auto strand = begin; strand != end; ++strand) {
      if ((*strand)->finished || !(unwinding_ || is_ready(**strand))) continue;
      (*strand)->coroutine->resume();
      resumed = true;
    }
    if (resumed) continue;
    TimeNs deadline_ns = no_deadline;
    for (auto strand = begin; strand != end; ++strand) {
      if (!(*strand)->finished) deadline_ns = std::min(deadline_ns, (*strand)->deadline_ns);
    }
    const auto one_is_ready = [&] {
      return std::any_of(begin, end,
                         [](const auto& strand) { return !strand->finished && (*strand->condition)(); });
    };
    static_cast<void>(fabric_.wait_until(one_is_ready, deadline_ns));
  }
}

bool Interleaver::is_ready(const Strand& strand) const {
  return strand.condition == nullptr || (*strand.condition)() ||
         (strand.deadline_ns != no_deadline && fabric_.clock().now_ns() >= strand.deadline_ns);
}

void Interleaver::main(void* self) {
  auto& strand = *static_cast<Strand*>(self);
  strand.all.work_off(strand);
  strand.finished = true;
  strand.coroutine->finish();
}

void Interleaver::work_off(Strand& /*strand*/) {
  try {
    while (next_ < count_ && !failure_ && !unwinding_) (*action_)(next_++);
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

Interleaver::Strand* Interleaver::current() const noexcept {
  if (!running_.load(std::memory_order_acquire)) return nullptr;
  const void* const frame = __builtin_frame_address(0);
  for (const auto& strand : strands_) {
    if (strand->holds(frame)) return strand.get();
  }
  return nullptr;
}

void Interleaver::wait(fabric::Completion& completion) {
  if (current() != nullptr) static_cast<void>(wait_until([&] { return completion.done(); }));
  wait_for(fabric_, completion);
}

fabric::Status Interleaver::wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns) {
  Strand* const strand = current();
  if (strand == nullptr) return fabric_.wait_until(condition, deadline_ns);
  if (condition()) return fabric::Status::ok;
  strand->condition = &condition;
  strand->deadline_ns = deadline_ns;
  strand->coroutine->suspend();
  strand->condition = nullptr;
  strand->deadline_ns = no_deadline;
  if (condition()) return fabric::Status::ok;
  // Only a deadline lets it go on otherwise; but for a rank that has ended.
  return unwinding_ ? fabric_.wait_until(condition, deadline_ns) : fabric::Status::timed_out;
}

}  // namespace craton::coherence
