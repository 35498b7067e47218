/// \file
/// Devices, of which there are none: target regions run on the host, where all of the program's memory is, so
/// nothing is mapped. What does not wait (`nowait`) is done at once.
#include <algorithm>
#include <cstring>
#include <memory>

#include "omp/gomp/abi.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::gomp {

namespace {

// Kinds of mapping: the low byte; above it, the logarithm of the alignment.
constexpr unsigned kind_mask = 0xff;
constexpr unsigned alignment_shift = 8;
constexpr unsigned first_private_kind = 0x0c;  ///< GOMP_MAP_FIRSTPRIVATE

// An argument for a device: which one, its id, and a value in the same word or in the next one.
constexpr std::uintptr_t device_mask = 0x7f;
constexpr std::uintptr_t value_follows = 1U << 7U;
constexpr std::uintptr_t id_mask = 0xff00;
constexpr std::uintptr_t thread_limit_id = 2U << 8U;
constexpr unsigned value_shift = 16;

/// What a target region has of its own of the program's variables, in memory that all ranks reach.
class FirstPrivate {
 public:
  FirstPrivate(std::size_t count, void** addresses, const std::size_t* sizes, const unsigned short* kinds) {
    std::size_t alignment = 1;
    for (std::size_t i = 0; i < count; ++i) {
      if ((kinds[i] & kind_mask) != first_private_kind) continue;
      const std::size_t own = std::size_t{1} << (kinds[i] >> alignment_shift);
      alignment = std::max(alignment, own);
      bytes_ += sizes[i] + own;
    }
    if (bytes_ == 0) return;
    bytes_ += alignment;
    block_ = take_block(bytes_);
    auto next = reinterpret_cast<std::uintptr_t>(block_);
    for (std::size_t i = 0; i < count; ++i) {
      if ((kinds[i] & kind_mask) != first_private_kind || addresses[i] == nullptr) continue;
      const std::uintptr_t own = std::uintptr_t{1} << (kinds[i] >> alignment_shift);
      next = (next + own - 1) & ~(own - 1);
      addresses[i] = std::memcpy(reinterpret_cast<void*>(next), addresses[i], sizes[i]);
      next += sizes[i];
    }
  }
  FirstPrivate(const FirstPrivate&) = delete;
  FirstPrivate& operator=(const FirstPrivate&) = delete;
  ~FirstPrivate() {
    if (block_ != nullptr) give_block(block_, bytes_);
  }

 private:
  std::size_t bytes_ = 0;
  void* block_ = nullptr;
};

/// \param arguments for devices, ended by null; null: none
std::uint32_t thread_limit_of(void** arguments) noexcept {
  while (arguments != nullptr && *arguments != nullptr) {
    const auto word = reinterpret_cast<std::uintptr_t>(*arguments++);
    const auto value = (word & value_follows) != 0 ? reinterpret_cast<std::intptr_t>(*arguments++)
                                                   : static_cast<std::intptr_t>(word) >> value_shift;
    if ((word & device_mask) != 0 || (word & id_mask) != thread_limit_id || value <= 0) continue;
    return static_cast<std::uint32_t>(std::min<std::intptr_t>(value, 0x7fffffff));
  }
  return 0;
}

}  // namespace

/// \param addresses of what is mapped, which the function gets; its own are put in there \param arguments for
/// devices
CRATON_GOMP void GOMP_target_ext(int /*device*/, Function function, std::size_t count, void** addresses,
                                 std::size_t* sizes, unsigned short* kinds, unsigned /*flags*/, void** depend,
                                 void** arguments) {
  const FirstPrivate own(count, addresses, sizes, kinds);  // as they are now, not when others have ended
  if (depend != nullptr) wait_for_dependences(depend);
  run_target(function, addresses, thread_limit_of(arguments));
}
/// What programs of GCC 4.9 call.
CRATON_GOMP void GOMP_target(int /*device*/, Function function, const void* /*unused*/, std::size_t /*count*/,
                             void** addresses, std::size_t* /*sizes*/, unsigned char* /*kinds*/) {
  run_target(function, addresses, 0);
}

CRATON_GOMP void GOMP_target_data(int /*device*/, const void* /*unused*/, std::size_t /*count*/,
                                  void** /*addresses*/, std::size_t* /*sizes*/, unsigned char* /*kinds*/) {}
CRATON_GOMP void GOMP_target_data_ext(int /*device*/, std::size_t /*count*/, void** /*addresses*/,
                                      std::size_t* /*sizes*/, unsigned short* /*kinds*/) {}
CRATON_GOMP void GOMP_target_end_data() {}
CRATON_GOMP void GOMP_target_update(int /*device*/, const void* /*unused*/, std::size_t /*count*/,
                                    void** /*addresses*/, std::size_t* /*sizes*/, unsigned char* /*kinds*/) {}
CRATON_GOMP void GOMP_target_update_ext(int /*device*/, std::size_t /*count*/, void** /*addresses*/,
                                        std::size_t* /*sizes*/, unsigned short* /*kinds*/, unsigned /*flags*/,
                                        void** depend) {
  if (depend != nullptr) wait_for_dependences(depend);
}
CRATON_GOMP void GOMP_target_enter_exit_data(int /*device*/, std::size_t /*count*/, void** /*addresses*/,
                                             std::size_t* /*sizes*/, unsigned short* /*kinds*/,
                                             unsigned /*flags*/, void** depend) {
  if (depend != nullptr) wait_for_dependences(depend);
}

// ---- Code for devices that a program brings along, which nothing here can run

CRATON_GOMP void GOMP_offload_register(const void* /*table*/, int /*kind*/, const void* /*code*/) {}
CRATON_GOMP void GOMP_offload_register_ver(unsigned /*version*/, const void* /*table*/, int /*kind*/,
                                           const void* /*code*/) {}
CRATON_GOMP void GOMP_offload_unregister(const void* /*table*/, int /*kind*/, const void* /*code*/) {}
CRATON_GOMP void GOMP_offload_unregister_ver(unsigned /*version*/, const void* /*table*/, int /*kind*/,
                                             const void* /*code*/) {}

}  // namespace craton::omp::gomp
