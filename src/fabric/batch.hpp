/// \file
/// Operations that leave together. What a thread issues to the network while a batch of its own is open may
/// be held back until the batch ends, or until the thread waits in the fabric, whichever comes first: so that
/// several small requests to one rank cost one call of the kernel, at either end, and one wake-up there. What
/// holds nothing back (shm, ucx, the simulator) takes no notice.
///
///   { const Batch together; fabric.swap(...); fabric.get(...); fabric.get(...); }   // leave here
///   fabric.wait(completion);
///
/// Within a batch a thread must wait for others through its fabric only: whoever it waits for in another way
/// may wait for what is held back.
#pragma once

namespace craton::fabric {

/// A transport's connection, say: what holds back operations of threads with an open batch.
class HoldsBack {
 public:
  virtual ~HoldsBack() = default;
  /// Sends what is held back. Any thread; blocks for no peer.
  virtual void send_held() noexcept = 0;
};

/// Belongs to a thread; may be nested, then the outermost counts. Costs a few ns where nothing is held back.
class Batch {
 public:
  /// For who serves arrivals, perhaps on a thread that waits: no batch is open for as long as it lives.
  /// Nobody would send what a handler issues.
  class Pause {
   public:
    Pause() noexcept;
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    const unsigned depth_;
  };

  Batch() noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  /// For transports, when the calling thread issues: whether to hold it back. If so `holder` is told to send.
  static bool holds(HoldsBack& holder) noexcept;
  /// Before the calling thread waits: sends what it has held back. The batch stays open.
  static void send_held() noexcept;
};

}  // namespace craton::fabric
