/// \file
/// Which host runs which ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/types.hpp"

namespace craton::job {

/// A host and its ranks, `first_rank` to `first_rank + rank_count - 1`.
struct Placement {
  std::string host;
  fabric::Rank first_rank;
  fabric::Rank rank_count;
  bool operator==(const Placement&) const = default;
};

/// Splits "a,b" into hosts. \throws Error invalid_argument for an empty or impossible name
std::vector<std::string> split_hosts(std::string_view list);

/// Gives consecutive ranks to hosts in their order: `ranks_per_node` to each until there are no more, or, if
/// that is 0, the same number to each (one more to the first ones if it does not divide). Hosts that get none
/// are left out. \param hosts empty: this host takes all \throws Error invalid_argument if the hosts do not
/// hold that many
std::vector<Placement> place_ranks(fabric::Rank ranks, const std::vector<std::string>& hosts,
                                   fabric::Rank ranks_per_node);

/// True for the names of this machine under which no launch agent is needed.
bool is_this_host(std::string_view host);

/// This machine's name, as in messages.
std::string this_host_name();

}  // namespace craton::job
