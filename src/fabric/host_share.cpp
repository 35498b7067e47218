#include "fabric/host_share.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "base/processors.hpp"

namespace craton::fabric {

std::string HostShare::own_processors() {
  std::string bits;
  for (const std::uint32_t processor : craton::processors()) {
    const std::size_t byte = processor / CHAR_BIT;
    if (byte >= bits.size()) bits.resize(byte + 1);
    bits[byte] = static_cast<char>(static_cast<unsigned char>(bits[byte]) | 1U << processor % CHAR_BIT);
  }
  return bits;
}

void HostShare::add(const std::string& processors) {
  ++ranks_;
  all_.resize(std::max(all_.size(), processors.size()));
  std::transform(processors.begin(), processors.end(), all_.begin(), all_.begin(),
                 [](char one, char other) { return static_cast<char>(one | other); });
}

Rank HostShare::processors() const noexcept {
  Rank count = 0;
  for (const char byte : all_) count += static_cast<Rank>(std::popcount(static_cast<unsigned char>(byte)));
  return count;
}

}  // namespace craton::fabric
