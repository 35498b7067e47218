/// \file
/// Those who wait for something, in their order. Links lie on the stacks of who waits.
#pragma once

#include "fiber/suspended.hpp"

namespace craton::fiber {

/// Guarded by its owner's lock.
template <System S>
class WaitList {
 public:
  struct Node {
    Handle handle = nobody;
    Node* next = nullptr;
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
  /// Resumes all from `node` on, which are in no list any more.
  static void resume_all(Node* node) noexcept {
    while (node != nullptr) {
      Node* const next = node->next;  // the node is gone once its thread goes on
      resume<S>(node->handle);
      node = next;
    }
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;
};

}  // namespace craton::fiber
