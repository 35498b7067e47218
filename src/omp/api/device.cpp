/// \file
/// Routines for devices, of which there are none: the host is the only one, number 0.
#include <cerrno>
#include <cstring>

#include "omp/api/api.hpp"
#include "omp/api/memory.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::api {

namespace {

constexpr int host = 0;
/// What older programs call the host.
constexpr int host_fallback = -2;

constexpr bool is_host(int device) noexcept {
  return device == host || device == host_fallback;
}

struct Box {
  const std::size_t* volume;  ///< to copy, in elements, by dimension
  const std::size_t* target_offset;
  const std::size_t* source_offset;
  const std::size_t* target_extent;
  const std::size_t* source_extent;
};

/// Copies a box out of an array into another, from `dimension` on.
void copy_box(std::byte* target, const std::byte* source, std::size_t element_bytes, int dimension,
              int dimensions, const Box& box) {
  std::size_t target_bytes = element_bytes;
  std::size_t source_bytes = element_bytes;
  for (int inner = dimension + 1; inner < dimensions; ++inner) {
    target_bytes *= box.target_extent[inner];
    source_bytes *= box.source_extent[inner];
  }
  target += box.target_offset[dimension] * target_bytes;
  source += box.source_offset[dimension] * source_bytes;
  if (dimension + 1 == dimensions) {
    std::memcpy(target, source, box.volume[dimension] * element_bytes);
    return;
  }
  for (std::size_t i = 0; i < box.volume[dimension]; ++i)
    copy_box(target + i * target_bytes, source + i * source_bytes, element_bytes, dimension + 1, dimensions,
             box);
}

}  // namespace

CRATON_OMP void omp_set_default_device(int device) {
  icvs().default_device = device < 0 ? 0 : device;
}
CRATON_OMP int omp_get_default_device() {
  return icvs().default_device;
}
CRATON_OMP int omp_get_num_devices() {
  return 0;
}
CRATON_OMP int omp_get_device_num() {
  return host;
}
CRATON_OMP int omp_get_initial_device() {
  return host;
}
CRATON_OMP int omp_is_initial_device() {
  return 1;
}

CRATON_OMP void* omp_target_alloc(std::size_t bytes, int device) {
  return is_host(device) ? allocate(bytes, 1, null_allocator) : nullptr;
}
CRATON_OMP void omp_target_free(void* pointer, int device) {
  if (is_host(device)) release(pointer);
}
CRATON_OMP int omp_target_is_present(const void* /*pointer*/, int device) {
  return is_host(device) ? 1 : 0;
}
CRATON_OMP int omp_target_memcpy(void* target, const void* source, std::size_t bytes,
                                 std::size_t target_offset, std::size_t source_offset, int target_device,
                                 int source_device) {
  if (!is_host(target_device) || !is_host(source_device)) return EINVAL;
  std::memcpy(static_cast<std::byte*>(target) + target_offset,
              static_cast<const std::byte*>(source) + source_offset, bytes);
  return 0;
}
/// \returns for two null pointers: how many dimensions it takes
CRATON_OMP int omp_target_memcpy_rect(void* target, const void* source, std::size_t element_bytes,
                                      int dimensions, const std::size_t* volume,
                                      const std::size_t* target_offset, const std::size_t* source_offset,
                                      const std::size_t* target_extent, const std::size_t* source_extent,
                                      int target_device, int source_device) {
  constexpr int any_number = 0x7fffffff;
  if (target == nullptr && source == nullptr) return any_number;
  if (!is_host(target_device) || !is_host(source_device) || dimensions < 1) return EINVAL;
  copy_box(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), element_bytes, 0,
           dimensions, {volume, target_offset, source_offset, target_extent, source_extent});
  return 0;
}
CRATON_OMP int omp_target_associate_ptr(const void* /*here*/, const void* /*there*/, std::size_t /*bytes*/,
                                        std::size_t /*offset*/, int /*device*/) {
  return EINVAL;
}
CRATON_OMP int omp_target_disassociate_ptr(const void* /*pointer*/, int /*device*/) {
  return EINVAL;
}

/// \param kind omp_pause_resource_t
CRATON_OMP int omp_pause_resource_all(int /*kind*/) {
  return self().state.level == 0 ? 0 : -1;
}
CRATON_OMP int omp_pause_resource(int kind, int device) {
  return is_host(device) ? omp_pause_resource_all(kind) : -1;
}

CRATON_OMP void omp_fulfill_event(std::uintptr_t event) {
  fulfil(event);
}

// ---- Fortran

CRATON_OMP void omp_set_default_device_(const std::int32_t* device) {
  omp_set_default_device(*device);
}
CRATON_OMP void omp_set_default_device_8_(const std::int64_t* device) {
  omp_set_default_device(to_int(*device));
}
CRATON_OMP std::int32_t omp_get_default_device_() {
  return omp_get_default_device();
}
CRATON_OMP std::int32_t omp_get_num_devices_() {
  return omp_get_num_devices();
}
CRATON_OMP std::int32_t omp_get_device_num_() {
  return omp_get_device_num();
}
CRATON_OMP std::int32_t omp_get_initial_device_() {
  return omp_get_initial_device();
}
CRATON_OMP std::int32_t omp_is_initial_device_() {
  return omp_is_initial_device();
}
CRATON_OMP std::int32_t omp_pause_resource_(const std::int32_t* kind, const std::int32_t* device) {
  return omp_pause_resource(*kind, *device);
}
CRATON_OMP std::int32_t omp_pause_resource_all_(const std::int32_t* kind) {
  return omp_pause_resource_all(*kind);
}
CRATON_OMP void omp_fulfill_event_(std::intptr_t event) {
  omp_fulfill_event(static_cast<std::uintptr_t>(event));
}

}  // namespace craton::omp::api
