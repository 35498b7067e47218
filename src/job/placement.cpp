#include "job/placement.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.hpp"

namespace craton::job {

std::vector<std::string> split_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  if (list.empty()) return hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string host(list.substr(begin, end - begin));
    // The name becomes an argument of the launch agent, where a leading '-' would be an option.
    const bool possible =
        !host.empty() && host.front() != '-' && std::all_of(host.begin(), host.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                 std::string_view("-_.:@%[]").find(c) != std::string_view::npos;
        });
    if (!possible) {
      throw Error(ErrorCode::invalid_argument,
                  {.asked = "cannot use the host list '" + std::string(list) + "'",
                   .happened = "'" + host + "' is no host name",
                   .limit = {},
                   .remedy = "give names separated by commas, as in --host a,b"});
    }
    hosts.push_back(host);
    begin = end + 1;
  }
  return hosts;
}

std::vector<Placement> place_ranks(fabric::Rank ranks, const std::vector<std::string>& hosts,
                                   fabric::Rank ranks_per_node) {
  const std::vector<std::string> used = hosts.empty() ? std::vector<std::string>{"localhost"} : hosts;
  const auto count = static_cast<fabric::Rank>(used.size());
  if (ranks_per_node != 0 && std::uint64_t{ranks_per_node} * count < ranks) {
    const std::string hold = count == 1 ? "1 host holds" : std::to_string(count) + " hosts hold";
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot place " + std::to_string(ranks) + " ranks",
                 .happened = hold + " " + std::to_string(std::uint64_t{ranks_per_node} * count),
                 .limit = "--ranks-per-node " + std::to_string(ranks_per_node),
                 .remedy = "add hosts with --host, raise --ranks-per-node, or ask for fewer ranks"});
  }
  std::vector<Placement> placements;
  fabric::Rank next = 0;
  for (fabric::Rank i = 0; i < count && next < ranks; ++i) {
    const fabric::Rank share =
        ranks_per_node != 0 ? ranks_per_node : ranks / count + (i < ranks % count ? 1 : 0);
    const fabric::Rank taken = std::min(share, ranks - next);
    placements.push_back({used[i], next, taken});
    next += taken;
  }
  return placements;
}

std::string this_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

bool is_this_host(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == this_host_name();
}

}  // namespace craton::job
