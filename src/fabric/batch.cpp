#include "fabric/batch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/cancellation.hpp"
#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"

namespace craton::fabric {

namespace {

/// What goes to more ranks than this at a time is sent at once.
constexpr std::size_t holders_most = 16;

struct OpenBatch {
  unsigned depth;
  std::size_t count;
  std::array<HoldsBack*, holders_most> holders;
};
constinit thread_local OpenBatch open_batch [[gnu::tls_model("initial-exec")]] = {};

}  // namespace

Batch::Pause::Pause() noexcept : depth_(std::exchange(open_batch.depth, 0)) {}

Batch::Pause::~Pause() {
  open_batch.depth = depth_;
}

Batch::Batch() noexcept {
  ++open_batch.depth;
}

Batch::~Batch() {
  if (--open_batch.depth == 0) send_held();
}

bool Batch::holds(HoldsBack& holder) noexcept {
  OpenBatch& batch = open_batch;
  if (batch.depth == 0) return false;
  const auto end = batch.holders.begin() + static_cast<std::ptrdiff_t>(batch.count);
  if (std::find(batch.holders.begin(), end, &holder) != end) return true;
  if (batch.count == batch.holders.size()) return false;
  batch.holders[batch.count++] = &holder;
  return true;
}

void Batch::send_held() noexcept {
  if (open_batch.count == 0) return;
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  for (OpenBatch& batch = open_batch; batch.count != 0;) batch.holders[--batch.count]->send_held();
}

}  // namespace craton::fabric
