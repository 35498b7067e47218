#include "fabric/packed_texts.hpp"

#include <cstdint>
#include <cstring>

#include "base/error.hpp"

namespace craton::fabric {

std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    packed.append(reinterpret_cast<const char*>(&length), sizeof length);
    packed += text;
  }
  return packed;
}

std::vector<std::string> unpack(const std::string& packed, std::size_t expected) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= packed.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, packed.data() + at, sizeof length);
    at += sizeof length;
    if (length > packed.size() - at) break;
    texts.push_back(packed.substr(at, length));
    at += length;
  }
  if (texts.size() != expected) {
    throw Error(ErrorCode::protocol,
                {.asked = "cannot wire the ranks of the job",
                 .happened = "a rank's address has the wrong form",
                 .limit = {},
                 .remedy = "all ranks must run the same version of Craton with the same options"});
  }
  return texts;
}

}  // namespace craton::fabric
