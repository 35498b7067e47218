/// \file
/// Those who wait for something, in their order. Links lie on the stacks of who waits.
#pragma once

#include "fiber/worker.hpp"

namespace craton::fiber {

/// Turns a stack of arrivals, linked from the newest by `next`, around. \returns the oldest
template <typename Node>
Node* in_order_of_arrival(Node* newest) noexcept {
  Node* newer = nullptr;
  while (newest != nullptr) {
    Node* const older = newest->next;
    newest->next = newer;
    newer = newest;
    newest = older;
  }
  return newer;
}

/// Guarded by its owner's lock.
template <System S>
class WaitList {
 public:
  struct Node {
    typename S::template Plain<Handle> handle{nobody};
    typename S::template Plain<Node*> next{nullptr};
  };

  void append(Node& node) noexcept {
    node.next = nullptr;
    if (first_ == nullptr) {
      first_ = &node;
    } else {
      last_->next = &node;
    }
    last_ = &node;
  }
  /// The one that has waited for longest, or null.
  Node* take_first() noexcept {
    Node* const first = first_;
    if (first != nullptr) first_ = first->next;
    return first;
  }
  Node* take_all() noexcept {
    Node* const first = first_;
    first_ = nullptr;
    return first;
  }
  /// Resumes all from `node` on, which are in no list any more. Fibers of the caller's own scheduler become
  /// ready here, and sleeping workers hear of them once.
  static void resume_all(Node* node) noexcept {
    Worker<S>* const worker = current_worker<S>();
    bool any = false;
    while (node != nullptr) {
      Node* const next = node->next;  // the node is gone once its thread goes on
      const Handle handle = node->handle;
      if (worker != nullptr && worker->can_enter(handle)) {
        worker->put_back_quietly(*reinterpret_cast<Fiber<S>*>(handle));
        any = true;
      } else {
        resume<S>(handle);
      }
      node = next;
    }
    if (any) worker->tell_of_work();
  }

 private:
  typename S::template Plain<Node*> first_{nullptr};
  typename S::template Plain<Node*> last_{nullptr};
};

}  // namespace craton::fiber
