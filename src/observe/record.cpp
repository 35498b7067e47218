#include "observe/record.hpp"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/host.hpp"

namespace craton::observe {

namespace {

enum class Tag : std::uint32_t { map = 0x43720001, thread, races, race_wheres, statistics, clock };

struct Head {
  Tag tag;
  std::uint32_t rank;
  std::uint64_t bytes;
};

struct ThreadHead {
  std::uint32_t number;
  std::uint32_t is_of_program;
  std::uint64_t lost;
  std::uint64_t total_count;
  std::uint64_t event_count;
};

/// Limits of what is read, against files that are none of ours.
constexpr std::uint32_t ranks_most = fabric::max_ranks;

template <typename Item>
void append(std::vector<std::byte>& to, const Item* items, std::size_t count) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(items);
  to.insert(to.end(), bytes, bytes + count * sizeof(Item));
}

void append_piece(std::vector<std::byte>& to, Tag tag, std::uint32_t rank, std::string_view body) {
  const Head head{.tag = tag, .rank = rank, .bytes = body.size()};
  append(to, &head, 1);
  append(to, body.data(), body.size());
}

std::string map_text(const std::vector<Part>& parts) {
  std::string text;
  const auto add_module = [](dl_phdr_info* info, std::size_t /*size*/, void* to) {
    std::uint64_t begin = ~std::uint64_t{0};
    std::uint64_t end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
      begin = std::min<std::uint64_t>(begin, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
      end = std::max<std::uint64_t>(
          end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
    }
    std::string path = info->dlpi_name;
    if (path.empty()) {
      const std::unique_ptr<char, void (*)(void*)> own(::realpath("/proc/self/exe", nullptr), &std::free);
      if (own != nullptr) path = own.get();
    }
    *static_cast<std::string*>(to) += fmt::format("module {} {} {} {}\n", info->dlpi_addr, begin, end, path);
    return 0;
  };
  ::dl_iterate_phdr(add_module, &text);
  for (const Part& part : parts)
    text += fmt::format("part {} {} {} {} {}\n", part.begin, part.bytes, part.block_bytes, part.part_bytes,
                        part.name);
  return text;
}

void read_map(std::string_view text, RankPart& rank) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "module") {
      Module& module = rank.modules.emplace_back();
      words >> module.base >> module.begin >> module.end >> std::ws;
      std::getline(words, module.path);
    } else {
      Part& part = rank.parts.emplace_back();
      words >> part.begin >> part.bytes >> part.block_bytes >> part.part_bytes >> std::ws;
      std::getline(words, part.name);
    }
  }
}

[[noreturn]] void refuse(const char* why) {
  throw Error(ErrorCode::protocol,
              {.asked = "cannot read what the ranks recorded", .happened = why, .limit = {}, .remedy = {}});
}

/// Takes from the front of bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool is_empty() const noexcept { return bytes_.empty(); }
  template <typename Item>
  Item take() {
    Item item;
    std::memcpy(&item, take_bytes(sizeof item).data(), sizeof item);
    return item;
  }
  template <typename Item>
  std::vector<Item> take_all(std::uint64_t count) {
    if (count > bytes_.size() / sizeof(Item)) refuse("a piece is cut off");
    std::vector<Item> items(count);
    if (count != 0) std::memcpy(items.data(), take_bytes(count * sizeof(Item)).data(), count * sizeof(Item));
    return items;
  }
  std::string_view take_bytes(std::uint64_t count) {
    if (count > bytes_.size()) refuse("a piece is cut off");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view bytes_;
};

}  // namespace

std::string Request::text() const {
  return fmt::format("{}:{}:{}", what, events_a_thread, path);
}

Request Request::take() {
  Request request;
  const char* const variable = std::getenv(request_variable);
  if (variable == nullptr) return request;
  const std::string_view text = variable;
  const char* const end = text.data() + text.size();
  const auto marks = std::from_chars(text.data(), end, request.what);
  if (marks.ec == std::errc() && marks.ptr != end) {
    const auto room = std::from_chars(marks.ptr + 1, end, request.events_a_thread);
    if (room.ec == std::errc() && room.ptr != end) request.path.assign(room.ptr + 1, end);
  }
  ::unsetenv(request_variable);
  return request;
}

ClockPart ClockPart::read() {
  const std::uint64_t now_ns = events::now_ns();  // at once: others read theirs now
  return {.host = boot_id(), .now_ns = now_ns};
}

std::vector<std::byte> own_pieces(fabric::Rank rank, const std::vector<Part>& parts, const ClockPart& clock) {
  std::vector<std::byte> pieces;
  append_piece(pieces, Tag::clock, rank, fmt::format("{} {}", clock.now_ns, clock.host));
  append_piece(pieces, Tag::map, rank, map_text(parts));
  events::for_threads([&](const events::ThreadRecord& thread) {
    const ThreadHead own{.number = thread.number,
                         .is_of_program = thread.is_of_program ? 1U : 0U,
                         .lost = thread.lost,
                         .total_count = thread.total_count,
                         .event_count = thread.event_count};
    const Head head{.tag = Tag::thread,
                    .rank = rank,
                    .bytes = sizeof own + thread.total_count * sizeof(events::Totals) +
                             thread.event_count * sizeof(events::Event)};
    append(pieces, &head, 1);
    append(pieces, &own, 1);
    append(pieces, thread.totals.data(), thread.total_count);
    append(pieces, thread.events, thread.event_count);
  });
  return pieces;
}

std::vector<std::byte> pieces_of(const std::vector<space::RacePlace>& races,
                                 const std::vector<std::string>& wheres, std::uint64_t left_out,
                                 std::string_view statistics) {
  std::vector<std::byte> pieces;
  const Head head{
      .tag = Tag::races, .rank = 0, .bytes = sizeof left_out + races.size() * sizeof(space::RacePlace)};
  append(pieces, &head, 1);
  append(pieces, &left_out, 1);
  append(pieces, races.data(), races.size());
  for (const std::string& where : wheres) append_piece(pieces, Tag::race_wheres, 0, where);
  append_piece(pieces, Tag::statistics, 0, statistics);
  return pieces;
}

int write_pieces(const std::string& path, const std::vector<std::vector<std::byte>>& pieces) noexcept {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (file == nullptr) return errno;
  for (const std::vector<std::byte>& each : pieces) {
    if (std::fwrite(each.data(), 1, each.size(), file.get()) != each.size()) return errno;
  }
  return std::fflush(file.get()) == 0 ? 0 : errno;
}

void take_one_clock(Record& record) {
  // The first rank of a host that left the meeting tells best when that was; others had to wait for a
  // processor. Ranks of one host are moved alike, so what they did stays in its order.
  std::map<std::string, std::uint64_t> met_ns;
  for (const RankPart& rank : record.ranks) {
    if (rank.clock.now_ns == 0) continue;  // it has told nothing
    std::uint64_t& first_ns = met_ns.emplace(rank.clock.host, rank.clock.now_ns).first->second;
    first_ns = std::min(first_ns, rank.clock.now_ns);
  }
  for (RankPart& rank : record.ranks) {
    if (rank.clock.now_ns == 0 || record.ranks[0].clock.now_ns == 0) continue;
    // Modulo 2^64 where this host has been up for longer than rank 0's.
    const std::uint64_t ahead_ns = met_ns[rank.clock.host] - met_ns[record.ranks[0].clock.host];
    for (ThreadPart& thread : rank.threads)
      for (events::Event& event : thread.events) event.start_ns -= ahead_ns;
  }
}

Record read_pieces(std::string_view bytes) {
  Record record;
  for (Reader all(bytes); !all.is_empty();) {
    const Head head = all.take<Head>();
    if (head.rank >= ranks_most) refuse("there is no such rank");
    Reader body(all.take_bytes(head.bytes));
    if (head.rank >= record.ranks.size()) record.ranks.resize(head.rank + std::size_t{1});
    RankPart& rank = record.ranks[head.rank];
    switch (head.tag) {
      case Tag::map:
        read_map(body.take_bytes(head.bytes), rank);
        break;
      case Tag::thread: {
        const ThreadHead own = body.take<ThreadHead>();
        rank.threads.push_back({.number = own.number,
                                .is_of_program = own.is_of_program != 0,
                                .lost = own.lost,
                                .totals = body.take_all<events::Totals>(own.total_count),
                                .events = body.take_all<events::Event>(own.event_count)});
        break;
      }
      case Tag::races:
        record.races_left_out = body.take<std::uint64_t>();
        record.races =
            body.take_all<space::RacePlace>((head.bytes - sizeof(std::uint64_t)) / sizeof(space::RacePlace));
        break;
      case Tag::race_wheres:
        record.race_wheres.emplace_back(body.take_bytes(head.bytes));
        break;
      case Tag::statistics:
        record.statistics = body.take_bytes(head.bytes);
        break;
      case Tag::clock: {
        std::istringstream words{std::string(body.take_bytes(head.bytes))};
        words >> rank.clock.now_ns >> rank.clock.host;
        break;
      }
      default:
        refuse("a piece is of no known kind");
    }
  }
  take_one_clock(record);
  return record;
}

}  // namespace craton::observe
