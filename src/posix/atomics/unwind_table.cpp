#include "posix/atomics/unwind_table.hpp"

#include <cstring>
#include <exception>
#include <string_view>

namespace craton::posix {
namespace {

class Malformed final : public std::exception {
 public:
  explicit Malformed(const char* what) : what_(what) {}
  const char* what() const noexcept override { return what_; }

 private:
  const char* what_;
};

// Encodings of pointers (DW_EH_PE_*): a format and what the value is relative to.
constexpr std::uint8_t encoding_omitted = 0xff;
constexpr std::uint8_t format_bits = 0x0f;
constexpr std::uint8_t relative_bits = 0x70;
constexpr std::uint8_t relative_to_itself = 0x10;
constexpr std::uint8_t relative_to_data = 0x30;
constexpr std::uint8_t is_indirect = 0x80;

/// Reads forward inside of a range.
class Reader {
 public:
  Reader(std::uintptr_t at, const AddressRange& range) : at_(at), range_(range) {}

  std::uintptr_t at() const noexcept { return at_; }
  void skip(std::uint64_t bytes) { at_ += bytes; }

  template <typename Value>
  Value value() {
    if (at_ < range_.begin || range_.end - at_ < sizeof(Value) || at_ >= range_.end)
      throw Malformed("its unwind tables point outside of it");
    Value read{};
    std::memcpy(&read, reinterpret_cast<const void*>(at_), sizeof read);
    at_ += sizeof read;
    return read;
  }
  std::uint64_t uleb128() { return leb128().value; }
  std::int64_t sleb128() {
    const Leb128 read = leb128();
    const bool negative = read.bits < 64 && (read.last & 0x40) != 0;
    return static_cast<std::int64_t>(negative ? read.value | (~std::uint64_t{0} << read.bits) : read.value);
  }
  std::string_view text() {
    const auto* const begin = reinterpret_cast<const char*>(at_);
    std::size_t length = 0;
    while (value<char>() != '\0') ++length;
    return {begin, length};
  }

  /// \param data what DW_EH_PE_datarel is relative to
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data) {
    const std::uintptr_t place = at_;
    std::uintptr_t result = plain(encoding & format_bits);
    if (result == 0) return 0;
    switch (encoding & relative_bits) {
      case 0:
        break;
      case relative_to_itself:
        result += place;
        break;
      case relative_to_data:
        result += data;
        break;
      default:
        throw Malformed("its unwind tables hold pointers of an unknown encoding");
    }
    if ((encoding & is_indirect) != 0) result = Reader(result, range_).value<std::uintptr_t>();
    return result;
  }

 private:
  struct Leb128 {
    std::uint64_t value = 0;
    unsigned bits = 0;
    std::uint8_t last = 0;
  };
  Leb128 leb128() {
    Leb128 read;
    do {
      read.last = value<std::uint8_t>();
      if (read.bits < 64) read.value |= std::uint64_t{read.last & 0x7fU} << read.bits;
      read.bits += 7;
    } while ((read.last & 0x80) != 0);
    return read;
  }
  std::uintptr_t plain(std::uint8_t format) {
    switch (format) {
      case 0x00:
        return value<std::uintptr_t>();
      case 0x01:
        return uleb128();
      case 0x02:
        return value<std::uint16_t>();
      case 0x03:
        return value<std::uint32_t>();
      case 0x04:
        return value<std::uint64_t>();
      case 0x09:
        return static_cast<std::uintptr_t>(sleb128());
      case 0x0a:
        return static_cast<std::uintptr_t>(std::int64_t{value<std::int16_t>()});
      case 0x0b:
        return static_cast<std::uintptr_t>(std::int64_t{value<std::int32_t>()});
      case 0x0c:
        return static_cast<std::uintptr_t>(value<std::int64_t>());
      default:
        throw Malformed("its unwind tables hold pointers of an unknown encoding");
    }
  }

  std::uintptr_t at_;
  AddressRange range_;
};

/// What a common information entry says of the entries of its functions.
struct Common {
  std::uint8_t pointer_encoding = 0;
  std::uint8_t exceptions_encoding = encoding_omitted;
  bool has_augmentation = false;
};

Common read_common(Reader reader) {
  reader.skip(4);  // length, not the extended one: sections that large are refused below
  if (reader.value<std::uint32_t>() != 0)
    throw Malformed("its unwind tables have an entry where another kind belongs");
  const auto version = reader.value<std::uint8_t>();
  const std::string_view augmentation = reader.text();
  Common common;
  reader.uleb128();  // code alignment
  reader.sleb128();  // data alignment
  if (version == 1) {
    reader.skip(1);  // return address register
  } else {
    reader.uleb128();
  }
  if (augmentation.empty()) return common;
  if (augmentation.front() != 'z') throw Malformed("its unwind tables are of an unknown kind");
  common.has_augmentation = true;
  reader.uleb128();
  for (const char each : augmentation.substr(1)) {
    switch (each) {
      case 'R':
        common.pointer_encoding = reader.value<std::uint8_t>();
        break;
      case 'L':
        common.exceptions_encoding = reader.value<std::uint8_t>();
        break;
      case 'P': {
        const auto encoding = reader.value<std::uint8_t>();
        reader.pointer(encoding & format_bits, 0);
        break;
      }
      case 'S':
      case 'B':
        break;
      default:
        throw Malformed("its unwind tables are of an unknown kind");
    }
  }
  return common;
}

/// The landing pads of one function.
void read_exceptions(Reader reader, std::uintptr_t function, std::vector<std::uintptr_t>& landing_pads) {
  const auto start_encoding = reader.value<std::uint8_t>();
  const std::uintptr_t start =
      start_encoding == encoding_omitted ? function : reader.pointer(start_encoding, 0);
  const auto types_encoding = reader.value<std::uint8_t>();
  if (types_encoding != encoding_omitted) reader.uleb128();
  const auto site_encoding = reader.value<std::uint8_t>();
  const std::uint64_t bytes = reader.uleb128();
  const std::uintptr_t end = reader.at() + bytes;
  while (reader.at() < end) {
    reader.pointer(site_encoding & format_bits, 0);  // where the call is
    reader.pointer(site_encoding & format_bits, 0);  // how long
    const std::uintptr_t pad = reader.pointer(site_encoding & format_bits, 0);
    reader.uleb128();  // action
    if (pad != 0) landing_pads.push_back(start + pad);
  }
}

void read_function(std::uintptr_t entry, const AddressRange& image, UnwindTable& table) {
  Reader reader(entry, image);
  const auto length = reader.value<std::uint32_t>();
  if (length == 0xffffffff) throw Malformed("its unwind tables are of the 64-bit kind");
  const std::uintptr_t common_field = reader.at();
  const auto common_distance = reader.value<std::uint32_t>();
  const Common common = read_common(Reader(common_field - common_distance, image));
  const std::uintptr_t begin = reader.pointer(common.pointer_encoding, 0);
  const std::uintptr_t bytes = reader.pointer(common.pointer_encoding & format_bits, 0);
  table.functions.push_back({begin, begin + bytes});
  if (!common.has_augmentation) return;
  reader.uleb128();
  if (common.exceptions_encoding == encoding_omitted) return;
  const std::uintptr_t exceptions = reader.pointer(common.exceptions_encoding, 0);
  if (exceptions != 0) read_exceptions(Reader(exceptions, image), begin, table.landing_pads);
}

}  // namespace

UnwindTable read_unwind_table(const AddressRange& header, const AddressRange& image) {
  UnwindTable table;
  try {
    Reader reader(header.begin, image);
    if (reader.value<std::uint8_t>() != 1) throw Malformed("its .eh_frame_hdr is of an unknown version");
    const auto frame_encoding = reader.value<std::uint8_t>();
    const auto count_encoding = reader.value<std::uint8_t>();
    const auto table_encoding = reader.value<std::uint8_t>();
    if (count_encoding == encoding_omitted || table_encoding == encoding_omitted)
      throw Malformed("its .eh_frame_hdr has no table");
    reader.pointer(frame_encoding, header.begin);
    const std::uint64_t count = reader.pointer(count_encoding, header.begin);
    for (std::uint64_t i = 0; i < count; ++i) {
      reader.pointer(table_encoding, header.begin);  // where the function begins; its entry says so too
      const std::uintptr_t entry = reader.pointer(table_encoding, header.begin);
      try {
        read_function(entry, image, table);
      } catch (const Malformed& error) {
        table.problem = error.what();
      }
    }
  } catch (const Malformed& error) {
    table.problem = error.what();
  }
  return table;
}

}  // namespace craton::posix
