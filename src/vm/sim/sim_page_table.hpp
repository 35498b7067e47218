/// \file
/// A page table of a simulated rank: a byte a block says what is allowed, and the simulated program loads and
/// stores through functions that look at it as the hardware would. No kernel, no signals, any number of ranks
/// in a process.
///
/// Threads of a simulated rank take turns. One can lose its turn where a FaultHandler suspends it, and before
/// each word in the preemption hook. Invariant: between the look at a block's access and the copy of a word
/// of up to 8 aligned bytes nobody else runs, as on a processor.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "vm/page_table.hpp"

namespace craton::vm {

class SimPageTable final : public PageTable {
 public:
  /// \param memory of block_bytes * blocks bytes, aligned to 8; outlives this. It plays both views.
  /// \param block_bytes a multiple of 8
  SimPageTable(std::byte* memory, std::size_t block_bytes, std::uint64_t blocks);

  /// Before the first load or store.
  void set_fault_handler(FaultHandler& handler) noexcept { handler_ = &handler; }
  /// Called before each word that is loaded or stored, if there is one: lets other threads take a turn.
  void set_preemption_hook(std::function<void()> hook) { hook_ = std::move(hook); }

  using PageTable::set_access;
  void set_access(std::span<const Run> runs, Access access) override;
  Access access(BlockIndex block) const noexcept override { return access_[block]; }

  /// What the program does by an instruction, or several if it is more than a word.
  void load(std::size_t offset, std::span<std::byte> to);
  void store(std::size_t offset, std::span<const std::byte> from);
  template <typename T>
  requires std::is_trivially_copyable_v<T> T load(std::size_t offset) {
    T value;
    load(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void store(std::size_t offset, const T& value) { store(offset, std::as_bytes(std::span(&value, 1))); }
  /// An atomic instruction on an aligned word: changes it to change(word). \returns what was there
  template <std::unsigned_integral T, std::invocable<T> Change>
  T update(std::size_t offset, Change&& change) {
    if (hook_) hook_();
    make_allowed(offset, true);
    T before;
    std::memcpy(&before, system_view() + offset, sizeof before);
    const T after = change(before);
    std::memcpy(system_view() + offset, &after, sizeof after);
    return before;
  }

  /// How often the FaultHandler was called.
  std::uint64_t faults() const noexcept { return faults_; }

 private:
  template <typename Copy>
  void for_each_word(std::size_t offset, std::size_t bytes, bool write, Copy&& copy);
  void make_allowed(std::size_t offset, bool write);

  std::vector<Access> access_;
  FaultHandler* handler_ = nullptr;
  std::function<void()> hook_;
  std::uint64_t faults_ = 0;
};

}  // namespace craton::vm
