/// \file
/// Addresses that nobody else in this process can be given: a range in which segments are mapped, at the same
/// place on every rank. Here it is taken in one process; that all ranks take the same is agreed on in the
/// room `space`, which tries the bases of candidate_bases() in turn until one is free everywhere.
///
///     base()                                                              base() + bytes()
///       │ segment A │ free │ segment B │                  free                  │
///       PROT_NONE all over, until a SegmentMemory maps its application view into an AddressRange
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace craton::vm {

class Reservation;

/// A piece of a Reservation, given back when it ends. Must end before the Reservation.
class AddressRange {
 public:
  AddressRange() = default;
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange();

  std::byte* begin() const noexcept { return begin_; }
  std::byte* end() const noexcept { return begin_ + bytes_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  friend class Reservation;
  AddressRange(Reservation& owner, std::byte* begin, std::size_t bytes) noexcept
      : owner_(&owner), begin_(begin), bytes_(bytes) {}

  Reservation* owner_ = nullptr;
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Costs addresses, no memory. Its functions may be called by any thread.
class Reservation {
 public:
  /// What may be at the addresses already.
  enum class Claim : std::uint8_t {
    unused,   ///< nothing
    replace,  ///< anything: it is unmapped, its bytes are gone; for a segment that takes all of it
  };
  /// Takes exactly [base, base + bytes).
  /// \param base, bytes whole pages
  /// \throws Error out_of_resources where the addresses are in use (says by what) or a limit is hit;
  ///   invalid_argument
  Reservation(std::uintptr_t base, std::size_t bytes, Claim claim = Claim::unused);
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  /// Bases that are free in usual processes, with randomised addresses and without, best first. Programs that
  /// run under the address or the thread sanitizer are given other ones by the kernel's refusal of these.
  static std::span<const std::uintptr_t> candidate_bases() noexcept;

  std::byte* base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// The lowest free piece. The same calls in the same order give the same addresses on every rank.
  /// \param bytes rounded up to whole pages \param alignment a power of two, at least a page
  /// \throws Error out_of_resources if no free piece is long enough; invalid_argument
  AddressRange take(std::size_t bytes, std::size_t alignment);
  /// The piece at `offset`. \throws Error out_of_resources if some of it is taken; invalid_argument
  AddressRange take_at(std::size_t offset, std::size_t bytes);

 private:
  friend class AddressRange;
  AddressRange cut(std::map<std::size_t, std::size_t>::iterator piece, std::size_t offset, std::size_t bytes);
  void give_back(std::byte* begin, std::size_t bytes) noexcept;

  std::byte* base_;
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset of each free piece, and its bytes
};

}  // namespace craton::vm
